"""`labsim train-small`: a small draft from a target's own layers and answers."""

from __future__ import annotations

from pathlib import Path

import click

from .options import (
    SEED,
    GivenPath,
    Number,
    NumberList,
    keep_the_draft,
    print_json,
    progress_bar,
    writing_to,
    wrong_values_exit_2,
)


@click.command("train-small")
@click.option("--target", "target_name", required=True, help="nano, smollm2, or the directory of a Llama.")
@click.option(
    "--data",
    "data",
    type=GivenPath(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    required=True,
    help="Directory of answers (labsim data generate); may be given several times.",
)
@click.option("--out", type=GivenPath(file_okay=False, path_type=Path), required=True, help="Directory of the draft.")
@click.option(
    "--start-from",
    type=GivenPath(exists=True, file_okay=False, path_type=Path),
    help="Go on from a small draft that is already good, with its layers and vocabulary.",
)
@click.option("--layers", type=NumberList(int), help="Target layers to start from. Default: the first two.")
@click.option("--draft-vocab-size", type=click.IntRange(min=1), default=4096, show_default=True)
@click.option("--epochs", type=click.IntRange(min=1), default=6, show_default=True)
@click.option("--minutes", type=Number(min=0, min_open=True), help="Stop by then, epochs done or not.")
@click.option("--learning-rate", type=Number(min=0, min_open=True), default=1e-3, show_default=True)
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option("--fresh", is_flag=True, help="Replace the draft or the training that OUT holds.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    target_name: str,
    data: tuple[Path, ...],
    out: Path,
    start_from: Path | None,
    layers: tuple[int, ...] | None,
    draft_vocab_size: int,
    epochs: int,
    minutes: float | None,
    learning_rate: float,
    seed: int,
    fresh: bool,
    as_json: bool,
) -> None:
    """Train a small draft for --target. Stop it at any time: the same command goes on from its last checkpoint.

    \b
    labsim data generate --target nano --prompts data/prompts/train.jsonl --out build/answers
    labsim train-small --target nano --data build/answers --out build/nano-small --minutes 3
    """
    from ..models.smollm2 import TargetUnavailable

    settings = {"layers": layers or (0, 1), "epochs": epochs, "learning_rate": learning_rate, "seed": seed}
    try:
        with writing_to(out), wrong_values_exit_2():
            report = run(target_name, data, out, minutes, draft_vocab_size, settings, start_from, fresh)
    except TargetUnavailable as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json(report)
        return
    held_out = report["held_out"]["all"]
    click.echo(
        f"{out}: {report['bytes'] / 1e6:.1f} MB, {report['steps']} steps, "
        f"held-out agreement {held_out['agreement']:.3f} (ceiling by vocabulary {held_out['coverage']:.3f}), "
        f"{held_out['acceptance_length']:.2f} tokens per step at K={held_out['k']}"
    )


def run(
    target_name: str,
    data: tuple[Path, ...],
    out: Path,
    minutes: float | None,
    draft_vocab_size: int,
    settings: dict[str, object],
    start_from: Path | None = None,
    fresh: bool = False,
) -> dict[str, object]:
    """Train, evaluate, write the draft and its recipe; the JSON document of the command."""
    import json
    import platform
    import time
    from dataclasses import asdict, replace

    import torch
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from ..features.store import fingerprint
    from ..models.config import read_json
    from ..models.fields import Fields
    from ..models.files import write_atomically
    from ..models.load import locate
    from ..train.answer_store import answer_tokens, read_answers, read_settings
    from ..train.places import check_apart, check_distinct
    from ..train.small import SmallRecipe, recipe_dict, save_draft, start_from_draft, start_from_target
    from ..train.small_data import draft_vocabulary, split
    from ..train.small_eval import evaluate
    from ..train.small_loop import CHECKPOINT, train

    inputs = {"--target": locate(target_name), "--start-from": start_from} | {f"--data {one}": one for one in data}
    check_apart({"--out": out}, inputs)
    check_distinct("--data", data)
    keep_the_draft(out, CHECKPOINT, fresh)
    training, held_out, greedy_held_out, sources = [], [], [], []
    for folder in data:
        made_with = read_settings(folder)
        if made_with.target != target_name:
            raise ValueError(
                f"{folder} holds answers of {made_with.target}, not of {target_name}: a draft learns its own"
            )
        if made_with.weights not in (None, fingerprint(locate(target_name))):
            raise ValueError(
                f"{folder} holds answers of other weights of {target_name}: it was trained or fetched anew since; "
                "make them again with `labsim data generate`"
            )
        ours, theirs = split(read_answers(folder))
        training += ours
        held_out += theirs
        greedy_held_out += theirs if made_with.temperature == 0 else []
        sources.append(asdict(made_with) | {"answers": len(ours) + len(theirs)})
    vocab_size = made_with.vocab_size
    recipe = SmallRecipe(draft_vocab_size=min(draft_vocab_size, vocab_size), **settings)
    if start_from:
        draft, vocabulary = start_from_draft(locate(target_name), start_from, target_name)
        before = read_json(start_from / "recipe.json")
        old = Fields(before, str(start_from / "recipe.json")).inner("recipe")
        recipe = replace(recipe, layers=old.wholes("layers"), draft_vocab_size=len(vocabulary))
    else:
        vocabulary = draft_vocabulary(training, recipe.draft_vocab_size, vocab_size)
        draft, before = start_from_target(locate(target_name), recipe, vocabulary), None
    if fresh:
        (out / CHECKPOINT).unlink(missing_ok=True)
    start = time.monotonic()
    columns = (TextColumn("{task.fields[loss]}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with progress_bar(*columns) as bar:
        task = bar.add_task("", total=1.0, loss="loss")
        steps = train(
            draft,
            vocabulary,
            training,
            recipe,
            out,
            minutes=minutes,
            told=lambda p: bar.update(task, completed=p.share, loss=f"step {p.step} loss {p.loss:.3f}"),
        )
    report = {name: asdict(a) for name, a in evaluate(draft, vocabulary, greedy_held_out or held_out).items()}
    save_draft(out, draft, vocabulary, target_name, vocab_size)
    summary = {
        "target": target_name,
        "recipe": recipe_dict(recipe),
        "minutes": minutes,
        "data": sources,
        "training_answers": len(training),
        "training_tokens": answer_tokens(training),
        "parameters": sum(p.numel() for p in draft.parameters()),
        "steps": steps,
        "seconds": time.monotonic() - start,
        "held_out": report,
        "start_from": before,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "threads": torch.get_num_threads(),
    }
    write_atomically(out / "recipe.json", json.dumps(summary, indent=2).encode())
    (out / CHECKPOINT).unlink()
    size = sum((out / name).stat().st_size for name in ("config.json", "model.safetensors"))
    return {"out": str(out), "bytes": size, **summary}
