"""``pssim calibrate``: measurements on this machine that scenarios are built on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pssim.errors import InputError, MissingExtraError, OutputError

if TYPE_CHECKING:
    from pssim.workload.profile import Profile

__all__ = ["calibrate"]


_LARGEST_BATCH = 10**6


@click.group()
def calibrate() -> None:
    """Measure models on this machine."""


def _batches(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    """The batches in ``1,8,32``: batch 1 and at least one more, so that scaling can be fitted."""
    try:
        batches = sorted({int(part) for part in text.split(",")})
    except ValueError:
        batches = []
    if len(batches) < 2 or batches[0] != 1 or batches[-1] > _LARGEST_BATCH:
        raise click.BadParameter(f"must be 1 and at least one larger number, such as 1,8,32; it is {text!r}")
    return tuple(batches)


@calibrate.command()
@click.argument("name")
@click.option(
    "--batch",
    "batches",
    default="1,8,32",
    show_default=True,
    callback=_batches,
    help="Batches to measure, with commas between; 1 must be among them.",
)
@click.option(
    "--threads", type=click.IntRange(min=1), help="Threads to compute with.  [default: torch's choice]"
)
@click.option(
    "--repeats",
    type=click.IntRange(min=3),
    default=7,
    show_default=True,
    help="Passes at each batch, besides two to warm up.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write.  [default: NAME.json]"
)
@click.option("--force", is_flag=True, help="Replace the file if it is there already.")
def model(
    name: str, batches: tuple[int, ...], threads: int | None, repeats: int, out: Path | None, force: bool
) -> None:
    """Measure the model NAME, layer by layer, and write its profile.

    NAME is one of alexnet, googlenet, gpt2, resnet50 and vgg16.

    A scenario uses the file as its workload: profile = "NAME.json".
    """
    try:
        from pssim.torch.models import MODELS
        from pssim.torch.profiler import measure
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError("pssim calibrate model needs PyTorch: pip install 'pssim[torch]'") from error
    if name not in MODELS:
        from difflib import get_close_matches

        near = get_close_matches(name, MODELS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"model must be one of {', '.join(MODELS)}, it is {name!r}{hint}")
    cores = os.cpu_count()
    if threads is not None and cores is not None and threads > cores:
        raise InputError(f"--threads must be at most {cores}, the cores of this machine; it is {threads}")
    path = out if out is not None else Path(f"{name}.json")
    # Found out before minutes of measuring, not after.
    if path.exists() and not force:
        raise OutputError(f"{path} is there already: give --force to replace it, or another --out")
    if not path.parent.is_dir():
        raise OutputError(f"{path} cannot be written: there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"{path} cannot be written: the directory {path.parent} is read-only for you")

    from pssim.workload.profile import save_profile

    command = f"pssim calibrate model {name} --batch {','.join(map(str, batches))}"
    command += f" --threads {threads}" if threads is not None else ""
    try:
        profile = measure(
            name,
            MODELS[name],
            batches=batches,
            threads=threads,
            repeats=repeats,
            command=f"{command} --repeats {repeats}",
            progress=lambda text: click.echo(f"{name}: {text}", err=True),
        )
    except KeyboardInterrupt:
        click.echo(f"{name}: interrupted, nothing was written", err=True)
        raise
    save_profile(profile, path)
    click.echo(_summary(profile))
    click.echo(f"written to {path}")


def _summary(profile: Profile) -> str:
    """What was measured, on one screen."""
    from pssim.units import format_si
    from pssim.workload.step import build_step

    made = profile.provenance
    forward, backward = profile.forward_flops, profile.backward_flops
    lines = [
        f"{profile.name}: {profile.parameters:,} parameters, {len(profile.layers)} layers, "
        f"{forward / 1e9:.3f} GFLOP forward and {backward / 1e9:.3f} backward a sample",
        f"{made['processor']}, {made['cores']} cores, {made['threads']} threads, torch {made['torch']}",
        "",
        "batch     forward    backward  samples/s             rate  spread   hooks",
    ]
    for total in profile.totals:
        pass_s = total.forward_s[1] + total.backward_s[1]
        spread_s = sum(high - low for low, _, high in (total.forward_s, total.backward_s))
        lines.append(
            f"{total.batch:>5}  {format_si(total.forward_s[1], 's'):>10}  "
            f"{format_si(total.backward_s[1], 's'):>10}  {total.batch / pass_s:>9.2f}  "
            f"{format_si(total.batch * (forward + backward) / pass_s, 'FLOP/s'):>15}  "
            f"{spread_s / pass_s:>6.3f}  {total.hook_overhead:>+6.3f}"
        )
    lines += [
        "spread: between quartiles, over the median; hooks: what reading the clock added, taken out again",
        "",
        f"update: {format_si(profile.update_s[1], 's')}",
        *build_step(profile, batch=profile.batches[-1]).notes,
    ]
    return "\n".join(lines)
