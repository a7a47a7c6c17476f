"""`labsim memory`: what a training step of a draft keeps in memory, whether it fits, and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ..sim.hardware import find_gpu
from .memory_shapes import shape_of, shape_of_config
from .options import RANKS, ROW_TOKENS, TTT_STEPS, TokenRange, given, print_json, wrong_values_exit_2

if TYPE_CHECKING:
    from ..train.ttt.memory import StepSetting
    from ..train.ttt.memory_remedies import Remedy, Verdict

KINDS = ("eagle1", "eagle3", "eagle3.1", "mtp", "heads")
HOW = "closed form, checked within 10 % against counted live bytes of the trainer's step on a CPU"


@click.command("memory")
@click.option("--target", "name", required=True, help="llama-3.1-8b, qwen3-30b-a3b, ..., nano, smollm2 or a directory.")
@click.option("--draft", type=click.Choice(KINDS), default="eagle3", show_default=True)
@click.option("--seq", type=ROW_TOKENS, required=True, help="Tokens of a packed row.")
@click.option("--ttt", type=TTT_STEPS, default=7, show_default=True, help="Unrolled steps.")
@click.option("--sp", type=RANKS, default=1, show_default=True, help="Ranks that share a row.")
@click.option("--rows", type=click.IntRange(1, 4096), default=1, show_default=True, help="Packed rows per step.")
@click.option("--places", type=TokenRange(min=1), help="Tokens of the row that are answers. Default: all.")
@click.option(
    "--dtype", type=click.Choice(["bf16", "fp32"]), default="bf16", show_default=True, help="Of the products."
)
@click.option("--draft-vocab-size", type=click.IntRange(min=1), help="Default: 32000, 4096 for nano and smollm2.")
@click.option("--optimizer", type=click.Choice(["adamw", "muon"]), default="adamw", show_default=True)
@click.option("--attention", type=click.Choice(["fused", "naive"]), default="fused", help="The one that is judged.")
@click.option("--checkpointing", is_flag=True, help="Recompute activations in backward.")
@click.option(
    "--chunked-logits",
    "--logit-chunk",
    "logit_chunk",
    is_flag=False,
    flag_value=1024,
    default=0,
    type=TokenRange(min=0),
    help="Logits of so many places at a time (1024 without a number).",
)
@click.option("--target-weights/--no-target-weights", default=True, help="Whether the target lies on the same GPU.")
@click.option("--gpu", help="Whose memory to fit into: h100, h200, l40s, ... Default: h100; with --probe this machine.")
@click.option("--every", is_flag=True, help="Show every remedy, needed or not.")
@click.option("--probe", "probing", is_flag=True, help="Run the step here on short rows and count. Loads the target.")
@click.option("--device", help="With --probe: cpu or cuda; the GPU if there is one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(name: str, gpu: str | None, probing: bool, device: str | None, as_json: bool, **options: object) -> None:
    """Bytes of one training step per rank, by what they are; the verdict for a GPU; remedies in order.

    \b
    labsim memory --target llama-3.1-8b --draft eagle3 --seq 128K --ttt 7 --sp 8 --json
    labsim memory --target smollm2 --draft eagle3.1 --seq 8192 --draft-vocab-size 4096 --probe
    """
    from ..models.smollm2 import TargetUnavailable

    if device and not probing:
        raise click.UsageError("--device belongs to --probe, which runs the step; the formula counts a GPU's kernels")
    if probing and options["sp"] != 1:
        raise click.UsageError(f"--sp is {options['sp']}; --probe runs one rank, so right is 1")
    if probing and (asked := given("rows", "places")):
        raise click.UsageError(f"{asked[0]} belongs to the formula; --probe runs one row, and all of it is judged")
    if probing and options["attention"] != "fused":
        raise click.UsageError("--attention is 'naive'; --probe runs the trainer, whose attention is fused")
    try:
        with wrong_values_exit_2():
            report = probed(name, gpu, device, options) if probing else computed(name, gpu, options)
    except TargetUnavailable as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json(report)
    else:
        click.echo(shown(report))


def computed(name: str, gpu: str | None, options: dict[str, object]) -> dict[str, object]:
    """The JSON document from the closed form. ValueError for unknown names and sizes that cannot be."""
    from dataclasses import replace

    from ..train.ttt.memory import StepSetting
    from ..train.ttt.memory_peak import peak
    from ..train.ttt.memory_remedies import advise

    chip = find_gpu("h100" if gpu is None else gpu)
    shape, weights = shape_of(name, str(options["draft"]), options["draft_vocab_size"])
    setting = setting_of(StepSetting, options, "cuda")
    extra = weights if options["target_weights"] else 0.0
    memory = chip.memory_gb * 1e9
    judged = advise(shape, setting, memory, extra=extra, every=bool(options["every"]))
    without = advise(shape, setting, memory)
    attentions = {}
    for attention in ("fused", "naive"):
        found = peak(shape, replace(setting, attention=attention))
        attentions[attention] = described(found.parts, extra, found.moment)
    return {
        "target": name,
        "draft": shape.kind,
        "shape": asdict(shape),
        "setting": asdict(setting),
        "per_rank": attentions,
        "score_matrix_bytes": shape.heads * setting.local_positions**2 * setting.ttt * (2 if setting.bf16 else 4),
        "gradient_bytes": 4 * shape.parameters(setting.ttt),
        "target_bytes": extra,
        "how": HOW,
        "measured": False,
        "not_measured": unmeasured(setting),
        "gpu": {"name": chip.name, "memory_bytes": memory, "usable_bytes": judged.usable},
    } | verdict_of(judged, without, extra)


def probed(name: str, gpu: str | None, device: str | None, options: dict[str, object]) -> dict[str, object]:
    """The JSON document from a step that was run here."""
    from ..models.load import load_target
    from ..train.ttt.memory import StepSetting
    from ..train.ttt.memory_probe import probe
    from ..train.ttt.memory_remedies import USABLE, advise
    from ..train.ttt.recipe import TTTRecipe

    chip = None if gpu is None else find_gpu(gpu)
    target = load_target(name, device=device)
    shape = shape_of_config(target.model.config, name, str(options["draft"]), options["draft_vocab_size"])
    recipe = TTTRecipe(
        draft=str(options["draft"]),
        ttt=options["ttt"],
        draft_vocab_size=shape.draft_vocab,
        bf16=options["dtype"] == "bf16",
        checkpointing=options["checkpointing"],
        logit_chunk=options["logit_chunk"],
        optimizer=options["optimizer"],
    )
    found = probe(target, recipe, options["seq"], told=lambda line: click.echo(line, err=True))
    memory = chip.memory_gb * 1e9 if chip else memory_here(found.device)
    kind = "cuda" if found.device == "cuda" else "cpu"
    setting = setting_of(StepSetting, options, kind, target.model.dtype.itemsize)
    judged = advise(shape, setting, memory, extra=found.target, every=bool(options["every"]))
    without = advise(shape, setting, memory)
    return {
        "target": name,
        "draft": recipe.draft,
        "shape": asdict(shape),
        "setting": asdict(setting),
        "probe": asdict(found) | {"total": found.total},
        "activations": found.saved,
        "parameters": found.weights + found.moments,
        "dominates": "activations" if found.saved > found.weights + found.moments else "parameters",
        "measured": not found.extrapolated,
        "measured_fits": found.total <= USABLE * memory,
        "target_bytes": found.target,
        "gpu": {"name": gpu or f"this machine ({found.device})", "memory_bytes": memory, "usable_bytes": judged.usable},
    } | verdict_of(judged, without, found.target)


def setting_of(kind: type, options: dict[str, object], device: str, state_bytes: int = 2) -> StepSetting:
    """The formula's setting of the command's options. ValueError for values that do not fit each other."""
    return kind(
        positions=options["seq"],
        ttt=options["ttt"],
        places=options["places"],
        rows=options["rows"],
        bf16=options["dtype"] == "bf16",
        attention=options["attention"],
        checkpointing=options["checkpointing"],
        logit_chunk=options["logit_chunk"],
        optimizer=options["optimizer"],
        sequence_parallel=options["sp"],
        state_bytes=state_bytes,
        device=device,
    )


def memory_here(device: str) -> float:
    """Bytes of this machine's GPU, or of its main memory."""
    if device == "cuda":
        import torch

        return float(torch.cuda.get_device_properties(0).total_memory)
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def unmeasured(setting: StepSetting) -> list[str]:
    """What of a computed figure no run has confirmed."""
    said = ["kernels on CUDA: norms save one tensor less than on a CPU, where the formula was checked"]
    if setting.sequence_parallel > 1:
        said.append(
            f"sequence parallelism: {setting.sequence_parallel} ranks are computed from the length of a shard, which "
            "was checked on a CPU with ranks of one process; buffers of collectives are not counted"
        )
    return said


def described(parts: object, extra: float, moment: str) -> dict[str, object]:
    """Bytes by part at the step's worst moment, which `moment` names."""
    named = dict(parts) | {"target": extra}  # type: ignore[call-overload]
    return {**named, "total": sum(named.values()), "moment": moment}


def verdict_of(judged: Verdict, without: Verdict, extra: float) -> dict[str, object]:
    """The verdict and every remedy tried, each on top of those before it; `without` the target's weights beside it."""
    sentence = judged.sentence
    if extra > judged.usable:
        sentence = (
            f"does not fit: {extra / 1e9:.1f} GB on each rank are the target's weights, and neither a shorter row nor "
            "another draft makes room for them. Without them, its states on disk (labsim train --features; "
            f"--no-target-weights here), it {without.sentence}"
        )
    elif not judged.enough and without.enough:
        sentence += (
            f". {extra / 1e9:.1f} GB on each rank are the target's weights: without them, its states on disk (labsim "
            f"train --features; --no-target-weights here), it {without.sentence}"
        )
    return {
        "fits": judged.now.fits,
        "verdict": sentence,
        "what_to_do": [one(remedy, extra) for remedy in judged.remedies],
    }


def one(remedy: Remedy, extra: float) -> dict[str, object]:
    return {
        "remedy": remedy.name,
        "sp": remedy.setting.sequence_parallel,
        "bytes": described(remedy.bytes.parts, extra, remedy.bytes.moment),
        "fits": remedy.fits,
        "measured": remedy.measured,
    }


def shown(report: dict[str, object]) -> str:
    """The report as text."""
    lines = []
    if "per_rank" in report:
        # The one that is judged: the other's thousands of GB would only be read by mistake.
        attention = report["setting"]["attention"]  # type: ignore[index]
        parts = report["per_rank"][attention]  # type: ignore[index]
        lines.append(f"{attention} attention, per rank, at its worst moment ({parts['moment']}):")
        bytes_of = {name: value for name, value in parts.items() if name != "moment"}
        lines += [f"  {name:<12}{said}" for name, said in zip(bytes_of, amounts(bytes_of.values()), strict=True)]
    else:
        found = report["probe"]
        how = "extrapolated from " if report["probe"]["extrapolated"] else "run: "  # type: ignore[index]
        ran = ", ".join(f"{row['positions']} tokens {row['peak'] / 1e6:,.1f} MB" for row in found["rows"])  # type: ignore[index]
        lines.append(f"one step on {found['device']}, {how}{ran}")  # type: ignore[index]
        named = ("saved", "step", "weights", "moments", "target", "states", "total")
        said = amounts(found[name] for name in named)  # type: ignore[index]
        lines += [f"  {name:<12}{one}" for name, one in zip(named, said, strict=True)]
        lines.append(f"  {report['dominates']} are the larger part")
    gpu = report["gpu"]
    lines.append(f"{gpu['name']}, {gpu['usable_bytes'] / 1e9:.1f} GB usable: {report['verdict']}")  # type: ignore[index]
    remedies = report["what_to_do"]
    totals = amounts(remedy["bytes"]["total"] for remedy in remedies)  # type: ignore[attr-defined]
    for remedy, total in zip(remedies, totals, strict=True):  # type: ignore[call-overload]
        note = "" if remedy["measured"] or remedy["sp"] == 1 else "  (computed, not measured)"
        verdict = "fits" if remedy["fits"] else "does not fit"
        lines.append(f"  + {remedy['remedy']:<28}{total}  {verdict}{note}")
    return "\n".join(lines)


def amounts(values: Iterable[float]) -> list[str]:
    """A column of gigabytes: megabytes are told beside a few GB, not beside thousands."""
    column = [value / 1e9 for value in values]
    largest = max(column, default=0.0)
    digits = 3 if largest < 100 else 1 if largest < 10_000 else 0
    return [f"{value:>12,.{digits}f} GB" for value in column]
