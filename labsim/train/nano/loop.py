"""The training loop: shard, forward, backward, step; checkpoints, held-out losses and a loss curve on the way.

A run lives in a working directory:

    tokenizer.json, checkpoint.safetensors, loss.csv, held_out.csv, run.json

and resumes from it. With a token budget the run is a function of (recipe, seed), and a resumed run takes exactly the
steps that an unbroken one takes; with a budget in minutes the schedule follows the clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from ..curve import Curve
from . import checkpoint
from .corpus import DOMAINS
from .guidance import Guidance
from .model import build_model, build_optimizers, next_token_loss
from .packing import held_out_rows, shard
from .recipe import Budget, Recipe
from .tokenizer import train_tokenizer
from .workers import Workers


@dataclass
class Counters:
    """Where a run stands. `row` counts rows read within the phase."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    phase: int = 0
    row: int = 0


@dataclass(frozen=True)
class StepReport:
    """What a progress bar shows after each step."""

    counters: Counters
    progress: float
    loss: float
    held_out: dict[str, float] | None


class Rows:
    """Reads training rows; keeps the current shard."""

    def __init__(self, tokenizer: Tokenizer, recipe: Recipe, seed: int) -> None:
        self.tokenizer, self.recipe, self.seed = tokenizer, recipe, seed
        self.held: tuple[int, int] | None = None
        self.rows = np.zeros((0, 0), np.uint16)

    def read(self, phase_index: int, row: int) -> torch.Tensor:
        """The next batch of a phase, (rows, length) int64."""
        phase = self.recipe.phases[phase_index]
        per_shard = max(phase.rows, self.recipe.rows_per_shard * 512 // phase.length // phase.rows * phase.rows)
        number, start = divmod(row, per_shard)
        if self.held != (phase_index, number):
            self.held = (phase_index, number)
            # Phases must not read the same conversations: each numbers its shards from its own base.
            self.rows = shard(self.tokenizer, self.seed, phase_index * 1_000_000 + number, per_shard, phase.length)
        return torch.from_numpy(self.rows[start : start + phase.rows].astype(np.int64))


def tokenizer_for(directory: Path, recipe: Recipe, seed: int) -> Tokenizer:
    """The working directory's tokenizer, trained if it is not there yet."""
    path = directory / "tokenizer.json"
    if path.exists():
        return Tokenizer.from_file(str(path))
    tokenizer = train_tokenizer(recipe.vocab_size, seed, recipe.tokenizer_characters)
    directory.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    tokenizer.save(str(temporary))
    os.replace(temporary, path)
    return tokenizer


def held_out_losses(
    model: LlamaForCausalLM, tokenizer: Tokenizer, recipe: Recipe, seed: int, length: int = 512
) -> dict[str, float]:
    """Mean held-out loss in nats per token, by domain."""
    losses = {}
    with torch.no_grad():
        for domain in DOMAINS:
            rows_BT = held_out_rows(tokenizer, domain, seed, recipe.evaluation_rows, length).astype(np.int64)
            losses[domain] = float(next_token_loss(model, torch.from_numpy(rows_BT), recipe.bf16))
    return losses


def train(
    directory: Path,
    recipe: Recipe,
    budget: Budget,
    seed: int,
    *,
    report: Callable[[StepReport], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    checkpoint_every_steps: int | None = None,
    workers: int = 2,
) -> tuple[LlamaForCausalLM, Tokenizer, Counters]:
    """Train until the budget is spent, resuming if the directory holds a checkpoint.

    `checkpoint_every_steps` replaces the recipe's checkpoint interval in seconds.
    """
    tokenizer = tokenizer_for(directory, recipe, seed)
    model = build_model(recipe, seed)
    optimizers = build_optimizers(model, recipe)
    base_rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    counters = Counters()
    path = directory / checkpoint.NAME
    if path.exists():
        counters = Counters(**checkpoint.load(path, model, optimizers))
    curve = Curve(
        directory / "loss.csv", "step,tokens,seconds,length,learning_rate_scale,loss,copy_loss", counters.step
    )
    held_out_curve = Curve(directory / "held_out.csv", "step,tokens,seconds," + ",".join(DOMAINS), counters.step)
    rows = Rows(tokenizer, recipe, seed)
    before, resumed_at = counters.seconds, clock()
    saved_at = evaluated_at = resumed_at
    model.train()
    parameters = list(model.parameters())
    guidance = Guidance(model, recipe)
    with Workers(workers) as pool:
        while (progress := budget.progress(counters.tokens, counters.seconds)) < 1:
            phase = recipe.phase_at(progress)
            if phase != counters.phase:
                counters.phase, counters.row = phase, 0
            tokens_BT = rows.read(counters.phase, counters.row)
            scale = recipe.scale_at(counters.step, progress)
            for optimizer, rates in zip(optimizers, base_rates, strict=True):
                for group, rate in zip(optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate * scale
            losses_of = partial(guidance.losses, hint=progress < recipe.hint_until)
            _, loss, copy_loss = pool.loss_and_gradients(losses_of, parameters, tokens_BT)
            torch.nn.utils.clip_grad_norm_(parameters, recipe.clip)
            pool.each(lambda optimizer: optimizer.step(), optimizers)
            now = clock()
            counters.step += 1
            counters.tokens += tokens_BT.numel()
            counters.row += tokens_BT.shape[0]
            counters.seconds = before + now - resumed_at
            curve.add(
                counters.step,
                counters.tokens,
                f"{counters.seconds:.1f}",
                tokens_BT.shape[1],
                f"{scale:.4f}",
                f"{loss:.4f}",
                f"{copy_loss:.4f}",
            )
            held_out = None
            if now - evaluated_at > recipe.evaluation_every_seconds:
                held_out, evaluated_at = held_out_losses(model, tokenizer, recipe, seed), now
                held_out_curve.add(
                    counters.step, counters.tokens, f"{counters.seconds:.1f}", *(f"{held_out[d]:.4f}" for d in DOMAINS)
                )
            due = now - saved_at > recipe.checkpoint_every_seconds
            if checkpoint_every_steps is not None:
                due = counters.step % checkpoint_every_steps == 0
            if due:
                checkpoint.save(path, model, optimizers, asdict(counters))
                saved_at = now
            report(StepReport(counters, progress, loss, held_out))
    checkpoint.save(path, model, optimizers, asdict(counters))
    return model.eval(), tokenizer, counters
