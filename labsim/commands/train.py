"""`labsim train`: an EAGLE, MTP or parallel-heads draft, trained on the target's own answers."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import click

from .options import (
    RANK_SECONDS,
    RANKS,
    ROW_TOKENS,
    SEED,
    TTT_STEPS,
    GivenPath,
    Number,
    TokenRange,
    given,
    keep_the_draft,
    print_json,
    progress_bar,
    writing_to,
    wrong_values_exit_2,
)

KINDS = ("eagle1", "eagle3", "eagle3.1", "mtp", "heads")


@click.command("train")
@click.option("--target", "target_name", required=True, help="nano, smollm2, a directory or a Hugging Face id.")
@click.option("--draft", type=click.Choice(KINDS), required=True)
@click.option("--ttt", type=TTT_STEPS, default=5, show_default=True, help="Unrolled steps; 1 is without TTT.")
@click.option(
    "--data",
    multiple=True,
    required=True,
    help="Directory of the target's answers (labsim data generate), or `shipped`; may be given several times.",
)
@click.option("--domains", help="Only answers of these domains, such as chat,code.")
@click.option("--steps", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--seq", type=ROW_TOKENS, default=512, show_default=True, help="Tokens of a packed row.")
@click.option("--rows", type=click.IntRange(1, 4096), default=1, show_default=True, help="Packed rows per step.")
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option("--out", type=GivenPath(file_okay=False, path_type=Path), required=True, help="Directory of the draft.")
@click.option("--fresh", is_flag=True, help="Start over where OUT holds a training.")
@click.option(
    "--features",
    type=GivenPath(file_okay=False, path_type=Path),
    help="Keep the target's states here and read them from there: faster from the second epoch on.",
)
@click.option(
    "--start-from",
    "begin",
    type=GivenPath(exists=True, file_okay=False, path_type=Path),
    help="Go on from a draft that is already good, with its sizes and vocabulary.",
)
@click.option("--learning-rate", type=Number(min=0, min_open=True), default=1e-3, show_default=True)
@click.option("--optimizer", type=click.Choice(["adamw", "muon"]), default="adamw", show_default=True)
@click.option("--matrix-learning-rate", type=Number(min=0, min_open=True), default=4e-3, help="Muon's.")
@click.option(
    "--weight-decay",
    type=Number(min=0),
    default=0.01,
    show_default=True,
    help="Decoupled; thousands of steps with muon want about 0.3, or the attention saturates.",
)
@click.option("--step-decay", type=Number(0, 1, min_open=True), default=0.8, show_default=True)
@click.option("--draft-vocab-size", type=click.IntRange(min=1), default=4096, show_default=True)
@click.option("--intermediate-size", type=click.IntRange(min=0), default=0, help="Feed-forward width; 0: the target's.")
@click.option("--mtp-branch", type=click.Choice(["own", "step"]), default="own", show_default=True)
@click.option("--oov", type=click.Choice(["keep", "drop"]), default="keep", show_default=True)
@click.option("--checkpointing", is_flag=True, help="Recompute activations in backward: less memory, more time.")
@click.option(
    "--logit-chunk",
    type=TokenRange(min=0),
    default=0,
    help="Logits of so many places at a time, made again in backward: far less memory on long rows; 0: all at once.",
)
@click.option("--bf16/--fp32", default=True, show_default=True, help="Precision of the matrix products.")
@click.option("--k", type=TTT_STEPS, default=4, show_default=True, help="Chain that chooses the checkpoint.")
@click.option("--evaluate-every", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--patience", type=click.IntRange(min=0), default=0, show_default=True, help="0 never stops early.")
@click.option("--any-template", is_flag=True, help="Take answers to prompts in another chat template too.")
@click.option("--device", help="cpu or cuda; the GPU if there is one.")
@click.option(
    "--target-dtype",
    type=click.Choice(["fp32", "bf16"]),
    help="Precision of the target's states. [default: fp32 on a CPU, bf16 on a GPU] A CPU with AMX is faster in bf16.",
)
@click.option("--ring", type=RANKS, default=1, show_default=True, help="Ring ranks; under torchrun.")
@click.option("--ulysses", type=RANKS, default=1, show_default=True, help="Ulysses ranks of each.")
@click.option("--layout", type=click.Choice(["zigzag", "contiguous"]), default="zigzag", show_default=True)
@click.option(
    "--rank-timeout",
    type=RANK_SECONDS,
    default=600,
    show_default=True,
    help="Seconds that a living rank may be late.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    target_name: str,
    draft: str,
    data: tuple[str, ...],
    domains: str | None,
    out: Path,
    fresh: bool,
    features: Path | None,
    begin: Path | None,
    any_template: bool,
    device: str | None,
    target_dtype: str | None,
    as_json: bool,
    ring: int,
    ulysses: int,
    layout: str,
    rank_timeout: float,
    **settings: object,
) -> None:
    """Train a draft for --target. Stop it at any time, even with kill -9: the same command goes on where it was.

    \b
    labsim train --target nano --draft eagle3.1 --ttt 5 --data shipped --steps 300 --out build/nano-eagle3.1
    labsim generate --target nano --draft build/nano-eagle3.1 --prompt "Tell me a story." --k 5 --compare

    \b
    Each row shared by four ranks, of this machine or of several:
    torchrun --nproc-per-node 4 -m labsim.train --ring 2 --ulysses 2 --target nano --draft eagle3.1 ...
    """
    from ..models.smollm2 import TargetUnavailable
    from ..parallel.group import RankError

    if begin and (ignored := given("draft_vocab_size", "intermediate_size")):
        raise click.UsageError(
            f"{ignored[0]} is the size of a new draft; --start-from brings its own: give one of them"
        )
    # Alone it is the first, whatever rank a batch system has put into the environment.
    first = os.environ.get("RANK", "0") == "0" or os.environ.get("WORLD_SIZE", "1") == "1"
    try:
        with writing_to(out) if first else nullcontext(), wrong_values_exit_2():
            from ..parallel.meeting import joined

            with joined(ring, ulysses, device=device, timeout_seconds=rank_timeout) as mesh:
                places = {"features": features, "begin": begin, "any_template": any_template, "device": device}
                places |= {"mesh": mesh, "layout": layout, "target_dtype": target_dtype}
                report = run(target_name, draft, data, domains, out, fresh, places, settings)
    except (TargetUnavailable, RankError) as error:
        raise click.ClickException(str(error)) from error
    if not first:
        return
    if as_json:
        print_json(report)
        return
    click.echo(
        f"{out}: {report['steps']} steps, loss {report['loss']:.3f}, held-out acceptance length "
        f"{report['acceptance_length']:.2f} at K={report['k']} (best at step {report['best_step']}); its "
        f"{report['draft_vocabulary']} tokens cover {report['coverage']['held_out']:.1%} of the held-out answers"
    )


def run(
    target_name: str,
    draft: str,
    data: tuple[str, ...],
    domains: str | None,
    out: Path,
    fresh: bool,
    places: dict[str, object],
    settings: dict[str, object],
) -> dict[str, object]:
    """Behind two progress bars on stderr."""
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from ..train.prompts import DOMAINS
    from ..train.ttt.checkpoint import NAME
    from ..train.ttt.loop import Report
    from ..train.ttt.recipe import TTTRecipe
    from ..train.ttt.run import run as train

    chosen = tuple(part.strip() for part in domains.split(",")) if domains else ()
    if unknown := [domain for domain in chosen if domain not in DOMAINS]:
        raise ValueError(f"unknown domain {unknown[0]!r} in --domains (known: {', '.join(DOMAINS)})")
    mesh = places["mesh"]
    if mesh.world.rank == 0:
        keep_the_draft(out, NAME, fresh)
    recipe = TTTRecipe(draft=draft, **settings)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with progress_bar(*columns, hidden=mesh.world.rank > 0) as progress:
        states = progress.add_task("target states", total=1, visible=places["features"] is not None)
        training = progress.add_task("training", total=recipe.steps)
        length, resumed = "", None

        def told(report: Report) -> None:
            nonlocal length, resumed
            if resumed is None and mesh.world.rank == 0:
                resumed = report.counters.step - 1
                if resumed:
                    progress.console.print(f"{out}: goes on behind step {resumed} of {recipe.steps}")
            if report.held_out:
                length = f"  held-out acceptance length {report.held_out.acceptance_length:.3f}"
            depths = " ".join(f"{share:.2f}" for share in report.per_depth_accuracy)
            text = f"step {report.counters.step}  loss {report.loss:.3f}  accuracy by depth {depths}{length}"
            progress.update(training, completed=report.counters.step, description=text)

        return train(
            target_name,
            data,
            recipe,
            out,
            domains=chosen,
            fresh=fresh,
            told=told,
            filled=lambda done, count: progress.update(states, completed=done, total=count),
            **places,
        )
