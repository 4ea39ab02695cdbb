"""The command ``pssim``: its subcommands, imported when they are called, and its exit codes.

0: done.  1: a check failed.  2: the input cannot be used, with a message.  3: a defect of pssim, with
one line here and the traceback in a log file.  130: interrupted.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib import import_module

import click

from pssim.errors import PssimError, ScenarioError

__all__ = ["main", "pssim"]

_DONE, _BAD_INPUT, _DEFECT, _INTERRUPTED = 0, 2, 3, 130

# Where each subcommand is, and the line it has in the help, so that the help imports none of them.
_COMMANDS = {
    "run": ("pssim.cli.run:run", "Predict how the schemes of a scenario scale."),
    "list": ("pssim.cli.list:list_", "List scenarios, schemes, profiles, devices and engines."),
    "explain": ("pssim.cli.explain:explain", "Say what a column or a setting means."),
    "schema": ("pssim.cli.schema:schema", "Print the JSON schema of scenario files."),
    "calibrate": ("pssim.cli.calibrate:calibrate", "Measure a model on this machine."),
}


class _LazyGroup(click.Group):
    """A group whose subcommands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{name} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], _COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" There are {', '.join(_COMMANDS)}."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"pssim {version('pssim')}")
        ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def pssim() -> None:
    """Predict how synchronous, asynchronous and pseudo-synchronous training scales.

    Start with: pssim list, then pssim run tianhe2-resnet50
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code; nothing but that code escapes."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows an escape instead of a traceback.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        code = _run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_gone()
    return code


def _run(args: Sequence[str] | None) -> int:
    stdout = sys.stdout
    try:
        result = pssim.main(args=args, prog_name="pssim", standalone_mode=False)
    except click.exceptions.Abort:  # which is what click makes of Ctrl-C
        return _INTERRUPTED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except click.ClickException as error:
        error.show()
        return _BAD_INPUT
    except PssimError as error:
        # The lines of a scenario's faults begin with file:line, where editors look for it.
        click.echo(f"{error}" if isinstance(error, ScenarioError) else f"Error: {error}", err=True)
        return error.exit_code
    except BrokenPipeError:
        raise
    except SystemExit as stop:
        if sys.stdout is not stdout:  # a broken pipe, of which click makes another stream and an exit with 1
            raise BrokenPipeError from stop
        return _code(stop)
    except Exception as error:
        return _defect(error)
    return result if isinstance(result, int) else _DONE


def _code(stop: SystemExit) -> int:
    """The code of a SystemExit, as the interpreter reads it."""
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or _DONE
    click.echo(stop.code, err=True)
    return 1


def _reader_gone() -> int:
    """Whoever read our output has seen enough, as ``head`` does: that is no error.

    What is still buffered goes nowhere, so that the interpreter does not trip over it at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _DONE


def _defect(error: Exception) -> int:
    """Say in one line that pssim itself is at fault, and keep the traceback for whoever mends it."""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    try:
        handle, path = tempfile.mkstemp(prefix="pssim-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"arguments: {sys.argv[1:]}\n")
            traceback.print_exception(error, file=log)
        where = f"the traceback is in {path}"
    except OSError as failure:
        where = f"the traceback could not be written: {failure}"
    click.echo(f"pssim: internal error, please report it: {what[:300]}; {where}", err=True)
    return _DEFECT
