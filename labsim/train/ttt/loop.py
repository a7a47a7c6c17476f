"""The training loop: rows, loss, AdamW, a look at the held-out acceptance length now and then.

The draft that is kept is the one with the longest held-out acceptance, not the one with the lowest loss: public runs
show acceptance falling while the loss still does. It is written to OUT whenever it gets better, so OUT holds a usable
draft from the first look on. `kill -9` loses at most the steps since the last checkpoint, and the resumed training
takes the very steps that an unbroken one takes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from ...drafts.eagle_checkpoint import TrainedDraft, save_draft
from ...drafts.vocabulary import DraftVocabulary
from ...features.source import StateSource
from ...features.store import name_of
from ...models.files import digest
from ...models.load import Target
from ...parallel.agree import agree
from ...parallel.layout import Kind
from ...parallel.mesh import Mesh
from ..curve import Curve
from .checkpoint import NAME, Counters, load_checkpoint, save_checkpoint
from .data import Document, PackedRow, endless_rows
from .estimate import Estimate, estimate
from .loss import Teacher, draft_device, row_loss
from .part import Part
from .recipe import TTTRecipe

CURVE = "loss.csv"
LOOKS = "held_out.csv"


@dataclass(frozen=True)
class Report:
    """Told after each step. `gradient_norm` is that before clipping, over all ranks."""

    counters: Counters
    loss: float
    gradient_norm: float
    per_depth_accuracy: tuple[float, ...]
    held_out: Estimate | None


def rate_scale(recipe: TTTRecipe, step: int) -> float:
    """What the learning rates are multiplied by: linear warm-up, then half a cosine to zero at the last step."""
    warm = max(1, round(recipe.warm_up * recipe.steps))
    return min(1.0, (step + 1) / warm) * 0.5 * (1 + math.cos(math.pi * step / recipe.steps))


def build_optimizers(draft: TrainedDraft, recipe: TTTRecipe) -> list[torch.optim.Optimizer]:
    """AdamW for everything; with `muon` AdamW for head and norms, and Muon (Jordan et al., 2024) for the matrices."""
    named = list(draft.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and "lm_head" not in name and recipe.optimizer == "muon"]
    others = [p for _, p in named if not any(p is matrix for matrix in matrices)]
    optimizers: list[torch.optim.Optimizer] = [
        # fused: one kernel per step instead of one per tensor.
        torch.optim.AdamW(
            others, lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=recipe.weight_decay, fused=True
        )
    ]
    if matrices:
        optimizers.append(
            torch.optim.Muon(
                matrices,
                lr=recipe.matrix_learning_rate,
                weight_decay=recipe.weight_decay,
                momentum=0.95,
                adjust_lr_fn="match_rms_adamw",
            )
        )
    return optimizers


def train(
    draft: TrainedDraft,
    vocabulary: DraftVocabulary,
    target: Target,
    source: StateSource,
    documents: Sequence[Document],
    held_out: Sequence[Document],
    recipe: TTTRecipe,
    out: Path,
    *,
    identity: dict[str, object],
    told: Callable[[Report], None] = lambda _: None,
    checkpoint_seconds: float = 60.0,
    checkpoint_every: int | None = None,
    mesh: Mesh | None = None,
    layout: Kind = "zigzag",
) -> Counters:
    """Train `draft` in place, going on from the checkpoint in `out` if there is one.

    Args:
        mesh, layout: ranks that share each row, all of which call this with the same arguments; the first one writes.
            The number of ranks is no part of a checkpoint: another number may go on from it.
        identity: what must be the same for a checkpoint to be this training's.
        checkpoint_every: steps between checkpoints, in place of `checkpoint_seconds`.

    Raises:
        ValueError: no documents, another training's checkpoint, or a loss that is no longer a number.
    """
    check_enough(documents, held_out)
    mesh = mesh or Mesh.alone()
    writes = mesh.world.rank == 0
    (out / NAME).parent.mkdir(parents=True, exist_ok=True)
    optimizers = build_optimizers(draft, recipe)
    base_rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    path, counters = out / NAME, Counters()
    if path.exists():
        counters = load_checkpoint(path, draft, optimizers, identity)
    if mesh.size > 1:
        start = {"checkpoint step": counters.step, "draft": digest(parameter_bytes(draft))}
        agree(mesh.world, start | {"held-out data": name_of_all(held_out)}, draft_device(draft))
    depths = range(1, recipe.ttt + 1)
    accuracies = ",".join(f"accuracy_{depth}" for depth in depths)
    survivals = ",".join(f"survival_{depth}" for depth in range(1, recipe.k + 1))
    if writes:
        curve = Curve(out / CURVE, f"step,tokens,loss,learning_rate_scale,{accuracies}", counters.step)
        looks = Curve(out / LOOKS, f"step,tokens,acceptance_length,{survivals}", counters.step)
    stream = endless_rows(documents, recipe.seq, recipe.seed, counters.rows)
    before, resumed_at = counters.seconds, time.monotonic()
    saved_at = resumed_at
    draft.train()
    while counters.step < recipe.steps and not (recipe.patience and counters.misses >= recipe.patience):
        scale = rate_scale(recipe, counters.step)
        for optimizer, rates in zip(optimizers, base_rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * scale
        loss, accuracy = 0.0, [[0, 0] for _ in depths]
        draft.zero_grad(set_to_none=True)
        for _ in range(recipe.rows):
            row = PackedRow.of(next(stream))
            part = Part.of(row, mesh, recipe.ttt, layout) if mesh.size > 1 else None
            states = part.states(source) if part else source.read([document.tokens for document in row.documents])
            last_LE = torch.cat([one.last_TE for one in states]).to(draft_device(draft))
            teacher = Teacher.of(row, last_LE, target.model.head, vocabulary, keep=not recipe.logit_chunk, part=part)
            row_total, figures = row_loss(draft, row, states, teacher, recipe, part=part)
            (row_total / recipe.rows).backward()
            loss += row_total.item() / recipe.rows
            counters.tokens += row.tokens_1L.numel()
            counters.rows += 1
            for depth, figure in enumerate(figures):
                accuracy[depth][0] += int(figure.correct_C.sum())
                accuracy[depth][1] += len(figure.correct_C)
        if mesh.size > 1:
            add_gradients(draft, mesh)
            loss, accuracy = add_figures(loss, accuracy, mesh, draft_device(draft))
        norm = torch.nn.utils.clip_grad_norm_(draft.parameters(), recipe.clip)
        if not (math.isfinite(loss) and math.isfinite(float(norm))):
            raise ValueError(
                f"the loss is {loss} and its gradient {float(norm)} at step {counters.step + 1}: try a lower learning "
                f"rate than {recipe.learning_rate:g}" + (f"; the last good state is in {path}" if path.exists() else "")
            )
        for optimizer in optimizers:
            optimizer.step()
        counters.step += 1
        counters.seconds = before + time.monotonic() - resumed_at
        shares = tuple(hits / count if count else math.nan for hits, count in accuracy)
        if writes:
            curve.add(
                counters.step, counters.tokens, f"{loss:.5f}", f"{scale:.4f}", *(f"{share:.4f}" for share in shares)
            )
        look = None
        if counters.step % recipe.evaluate_every == 0 or counters.step == recipe.steps:
            look = estimate(draft, held_out, source, target.model.head, vocabulary, recipe, recipe.k, mesh, layout)
            length, survival = f"{look.acceptance_length:.4f}", (f"{s:.4f}" for s in look.survival)
            if writes:
                looks.add(counters.step, counters.tokens, length, *survival)
            counters.misses += 1
            if look.acceptance_length > counters.best:
                counters.best, counters.best_step, counters.misses = look.acceptance_length, counters.step, 0
                if writes:
                    save_draft(out, draft, vocabulary, target.name)
        told(Report(replace(counters), loss, float(norm), shares, look))
        due = time.monotonic() - saved_at > checkpoint_seconds
        if writes and (counters.step % checkpoint_every == 0 if checkpoint_every else due):
            save_checkpoint(path, draft, optimizers, counters, identity)
            saved_at = time.monotonic()
    if writes:
        save_checkpoint(path, draft, optimizers, counters, identity)
    mesh.world.meet("all is written")
    return counters


def check_enough(documents: Sequence[Document], held_out: Sequence[Document]) -> None:
    """ValueError where there is nothing to train on, or nothing to choose a checkpoint by."""
    if not documents:
        raise ValueError("no answer has two tokens or more within seq: nothing trains (longer --seq, other --data)")
    if not held_out:
        raise ValueError("no held-out answers to choose a checkpoint by: a few dozen prompts are needed")


def add_gradients(draft: TrainedDraft, mesh: Mesh) -> None:
    """Every rank's gradient becomes the sum over ranks, in one message."""
    parameters = [parameter for parameter in draft.parameters() if parameter.requires_grad]
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
    for parameter in parameters:
        parameter.grad = None  # gigabytes, which the message and its sum need
    summed = mesh.world.all_reduce(flat, "gradients").split([p.numel() for p in parameters])
    for parameter, part in zip(parameters, summed, strict=True):
        parameter.grad = part.view_as(parameter)


def add_figures(
    loss: float, accuracy: list[list[int]], mesh: Mesh, device: torch.device
) -> tuple[float, list[list[int]]]:
    """(loss, [right guesses, guesses] by depth) of all ranks together."""
    # NCCL carries nothing from the CPU.
    mine = torch.tensor([loss, *(count for pair in accuracy for count in pair)], dtype=torch.float64, device=device)
    total, *counts = mesh.world.all_reduce(mine, "figures").tolist()
    return total, [[int(counts[at]), int(counts[at + 1])] for at in range(0, len(counts), 2)]


def parameter_bytes(draft: TrainedDraft) -> bytes:
    parts = (parameter.detach().cpu().contiguous().view(torch.uint8) for parameter in draft.parameters())
    return b"".join(part.numpy().tobytes() for part in parts)


def name_of_all(documents: Sequence[Document]) -> str:
    return name_of([token for document in documents for token in document.tokens])


def identity_of(recipe: TTTRecipe, target: Target, documents: Sequence[Document]) -> dict[str, object]:
    """What a checkpoint is bound to: recipe, target and the documents in their order."""
    settings = asdict(recipe)
    if not recipe.logit_chunk:  # as in checkpoints older than this setting
        settings.pop("logit_chunk")
    return {"recipe": settings, "target": target.name, "documents": name_of_all(documents)}
