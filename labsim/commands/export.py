"""`labsim export`: a draft in a layout that an engine loads."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from .options import GivenPath, print_json, wrong_values_exit_2

FORMATS = ("vllm", "speculators")


@click.command("export")
@click.argument("directory", type=GivenPath(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), required=True)
@click.option("--out", type=GivenPath(path_type=Path), required=True, help="A directory that is not there yet.")
@click.option("--target", "target_name", help="nano, smollm2, a directory or a Hugging Face id. Default: as it says.")
@click.option("--dtype", type=click.Choice(("fp16", "bf16", "fp32")), default="fp16", show_default=True)
@click.option("--k", type=click.IntRange(1, 64), default=3, show_default=True, help="Drafted tokens per step.")
@click.option("--force", is_flag=True, help="Replace the draft in an --out that is there.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    directory: Path, form: str, out: Path, target_name: str | None, dtype: str, k: int, force: bool, as_json: bool
) -> None:
    """Write the draft in DIRECTORY as an engine reads it.

    Its files are examined before and after; a fault there is no export. Whether it accepts anything is `labsim draft
    doctor`'s to say.

    vllm: EAGLE-3 and 3.1 (EAGLE's own layout), EAGLE-1, parallel heads (as Medusa). speculators: EAGLE-3 and 3.1.

    \b
    labsim export data/drafts/nano-eagle3.1 --format vllm --out build/for-vllm
    labsim export build/eagle3 --format speculators --dtype bf16 --out build/for-speculators --json
    """
    from ..checkpoints.export import export
    from ..models.smollm2 import TargetUnavailable

    with wrong_values_exit_2():
        try:
            done = export(directory, out, form, target_name=target_name, dtype=dtype, force=force, k=k)
        except TargetUnavailable as error:
            raise click.UsageError(str(error)) from error
    if as_json:
        print_json(
            {
                "format": done.format,
                "kind": done.kind,
                "out": str(done.out),
                "tensors": list(done.tensors),
                "bytes": done.bytes,
                "dtype": done.dtype,
                "command": done.command,
            }
        )
        return
    click.echo(f"{done.out}: {done.kind}, {len(done.tensors)} tensors, {done.bytes / 1e6:.1f} MB, {done.dtype}")
    click.echo(done.command)
    click.echo(
        f"Examined: its files. Whether it accepts anything says `labsim draft doctor {shlex.quote(str(done.out))}`."
    )
