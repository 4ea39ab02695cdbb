"""``pssim schema``: the JSON schema of scenario files, for editors."""

from __future__ import annotations

import click

__all__ = ["schema"]


@click.command()
def schema() -> None:
    """Print the JSON schema of scenario files.

    An editor that knows TOML schemas completes and checks a file that begins with
    "#:schema PATH", where PATH is a file with this output.
    """
    from pssim.scenario import schema_text

    click.echo(schema_text(), nl=False)
