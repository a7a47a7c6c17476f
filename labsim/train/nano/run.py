"""A whole run: train, export, evaluate, and write down how it was done.

OUT/run/     checkpoint, tokenizer, curves and run.json (what a resumed run needs)
OUT/model/   what is shipped: the model in Hugging Face layout, recipe.json, loss.csv, evaluation.json
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from tokenizers import Tokenizer

from ...models.config import read_json
from ...models.fields import Fields
from ...models.load import load_target
from .corpus import DOMAINS, MIX, held_out_prompts
from .evaluate import answer_entropies, copying, mean_loss
from .export import export_run, write_json
from .loop import Counters, StepReport, train
from .packing import CHATML_SHARE, evaluation_rows
from .recipe import Budget, Recipe
from .templates import BOS_ID
from .workers import Workers

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")
CURVE_LINES = 400


def run(
    out: Path,
    budget: Budget,
    seed: int,
    *,
    fresh: bool = False,
    workers: int = 2,
    recipe: Recipe | None = None,
    prompts_per_domain: int = 6,
    max_new_tokens: int = 80,
) -> dict[str, object]:
    """Train (resuming the run in `out` unless `fresh`), export and evaluate. Returns what the command prints as JSON.

    ValueError if `out` holds a run with another seed or recipe.
    """
    Workers(workers)  # A wrong number is refused before the tokenizer is trained.
    recipe = recipe or Recipe()
    directory, model_directory = out / "run", out / "model"
    if fresh and directory.exists():
        if not (directory / "run.json").exists() and any(directory.iterdir()):
            raise ValueError(
                f"{directory} would be deleted, and no training has made it (no run.json): give another --out"
            )
        shutil.rmtree(directory)
    claim(directory, recipe, seed)
    train_with_progress(directory, recipe, budget, seed, workers)
    counters = publish(directory, recipe, seed, model_directory, budget=budget, workers=workers)
    evaluation = evaluate(model_directory, seed, prompts_per_domain=prompts_per_domain, max_new_tokens=max_new_tokens)
    write_json(model_directory / "evaluation.json", evaluation)
    return {"model": str(model_directory), "seed": seed, **counters, **evaluation}


def claim(directory: Path, recipe: Recipe, seed: int) -> None:
    """Write run.json into a new run's directory, or check that the run there is the same one."""
    wanted = {"seed": seed, "recipe": json.loads(json.dumps(asdict(recipe)))}
    path = directory / "run.json"
    # Also before the first checkpoint: the tokenizer that is there was trained from that seed and recipe.
    if path.exists():
        found = read_json(path)
        if found.get("seed") != seed:
            raise ValueError(
                f"{directory} holds a run with seed {found.get('seed')}, not {seed} (use that seed, or --fresh)"
            )
        recipe_there = Fields(found, str(path)).inner("recipe").raw
        for name, value in wanted["recipe"].items():
            if (there := recipe_there.get(name)) != value:
                raise ValueError(
                    f"{directory} holds a run with {name} = {there}, not {value} (start over with --fresh)"
                )
    directory.mkdir(parents=True, exist_ok=True)
    write_json(path, wanted)


def train_with_progress(directory: Path, recipe: Recipe, budget: Budget, seed: int, workers: int) -> Counters:
    """`train` behind a progress bar on stderr."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("reading the corpus", total=1.0)
        held_out = ""

        def show(step: StepReport) -> None:
            nonlocal held_out
            if step.held_out:
                held_out = "  held out " + " ".join(f"{d} {loss:.2f}" for d, loss in step.held_out.items())
            c = step.counters
            text = f"step {c.step:,}  {c.tokens:,} tokens  loss {step.loss:.2f}{held_out}"
            progress.update(task, completed=step.progress, description=text)

        _, _, counters = train(directory, recipe, budget, seed, report=show, workers=workers)
        progress.update(task, completed=1.0)
    return counters


def publish(
    directory: Path,
    recipe: Recipe,
    seed: int,
    model_directory: Path,
    *,
    budget: Budget,
    workers: int,
) -> dict[str, object]:
    """Export the run's checkpoint with its recipe and loss curve; returns the run's counters."""
    counters = export_run(directory, recipe, model_directory)
    write_json(model_directory / "recipe.json", describe(recipe, seed, counters, budget, workers))
    for name in ("loss.csv", "held_out.csv"):
        temporary = model_directory / f".{name}.{os.getpid()}"
        temporary.write_text(thinned((directory / name).read_text()))
        os.replace(temporary, model_directory / name)
    return counters


def thinned(csv: str, lines: int = CURVE_LINES) -> str:
    """At most about so many lines of a CSV, evenly spaced; the header and the last line stay."""
    header, *body = csv.splitlines()
    every = math.ceil(len(body) / lines) or 1
    kept = [line for index, line in enumerate(body, 1) if index % every == 0 or index in (1, len(body))]
    return "\n".join([header, *kept]) + "\n"


def describe(recipe: Recipe, seed: int, counters: dict[str, object], budget: Budget, workers: int) -> dict[str, object]:
    """recipe.json: everything that decided what training made of the corpus."""
    return {
        "seed": seed,
        "budget": asdict(budget),
        "steps": counters["step"],
        "tokens": counters["tokens"],
        "wall_seconds": round(float(counters["seconds"]), 1),
        "recipe": asdict(recipe),
        "corpus": {"domains": MIX, "chatml_share": CHATML_SHARE, "text": "generated, and the standard library"},
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "workers": workers},
    }


def evaluate(
    model_directory: Path, seed: int, *, rows: int = 8, prompts_per_domain: int = 6, max_new_tokens: int = 80
) -> dict[str, object]:
    """evaluation.json: loss and perplexity per domain on both sides, entropy of the model's own held-out answers.

    `held_out` text has sentences, names and modules that training never saw; `training_side` text puts the training
    side's together anew. Rows have 1,024 tokens.
    """
    target = load_target(str(model_directory))
    tokenizer = Tokenizer.from_file(str(model_directory / "tokenizer.json"))
    report: dict[str, object] = {
        "measured_with": {
            "rows": rows,
            "prompts_per_domain": prompts_per_domain,
            "max_new_tokens": max_new_tokens,
            "seed": seed,
        }
    }
    for name, held_out in (("held_out", True), ("training_side", False)):
        figures = {}
        for domain in DOMAINS:
            length = min(1024, target.model.config.max_positions)
            rows_BT = evaluation_rows(tokenizer, domain, seed + 1, rows, length, held_out=held_out)
            loss = mean_loss(target.model, rows_BT)
            size = len(tokenizer.decode(rows_BT.reshape(-1).tolist()).encode())
            figures[domain] = {
                "loss_nats": loss,
                "perplexity": math.exp(loss),
                "bits_per_byte": loss / math.log(2) * rows_BT.size / size,
            }
        report[name] = figures
    report["copying"] = asdict(copying(target.model, seed, prefix=[BOS_ID]))
    prompts = {domain: held_out_prompts(domain, prompts_per_domain, seed) for domain in DOMAINS}
    report["entropy"] = answer_entropies(target, prompts, max_new_tokens=max_new_tokens, seed=seed)
    return report
