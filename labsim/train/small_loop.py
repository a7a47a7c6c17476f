"""The training loop of a small draft: deterministic for a seed, and bit-exact after a kill.

A checkpoint is one safetensors file, written beside its place and renamed: weights, both AdamW moments and the step, so
that resuming continues the same sequence of batches and updates. The loss curve is a CSV whose rows behind the
checkpoint are cut off on resuming, since they are computed again.

With a time budget the learning rate follows the clock once that runs ahead of the steps, so that a slow machine
anneals as well; without one it follows the steps alone, and the same seed gives the same weights to the bit.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save

from ..models.files import DIGEST_LETTERS, digest, write_atomically
from ..models.weights import opened
from .answer_store import Answer
from .small import SmallDraft, SmallRecipe, draft_loss, recipe_dict
from .small_data import DraftVocabulary, batches, endless_batches, make_batch

CHECKPOINT = "checkpoint.safetensors"
CURVE = "loss.csv"


@dataclass(frozen=True)
class Progress:
    """Told after each step. `share` is how much of the training is done, 0 to 1."""

    step: int
    loss: float
    learning_rate: float
    share: float


def total_steps(answers: Sequence[Answer], recipe: SmallRecipe) -> int:
    """Steps of a training: as many per epoch as the first epoch has batches."""
    return recipe.epochs * len(batches(answers, recipe.tokens_per_batch, recipe.seed, epoch=0))


def learning_rate(recipe: SmallRecipe, step: int, share: float) -> float:
    """Linear warm-up over `warmup_steps`, then half a cosine down to zero at share 1."""
    warm = min(1.0, (step + 1) / recipe.warmup_steps) if recipe.warmup_steps else 1.0
    return recipe.learning_rate * warm * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))


def train(
    draft: SmallDraft,
    vocabulary: DraftVocabulary,
    answers: Sequence[Answer],
    recipe: SmallRecipe,
    out: Path,
    *,
    minutes: float | None = None,
    checkpoint_seconds: float = 60.0,
    told: Callable[[Progress], None] = lambda _: None,
) -> int:
    """Train `draft` in place, going on from the checkpoint in `out` if there is one; the number of steps taken in all.

    ValueError when the checkpoint belongs to another recipe or other answers, or when the loss is no longer a number.
    """
    if not answers:
        raise ValueError("no training answers: generate some with `labsim data generate`")
    out.mkdir(parents=True, exist_ok=True)
    # fused: one kernel per step instead of one per tensor.
    optimizer = torch.optim.AdamW(
        draft.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=recipe.weight_decay, fused=True
    )
    steps = total_steps(answers, recipe)
    identity = {
        "recipe": recipe_dict(recipe),
        "answers": name_of_all(answers),
        "draft vocabulary": digest(vocabulary.ids_N.numpy().tobytes()),
        "draft to start from": digest(save({name: p.detach() for name, p in draft.named_parameters()})),
        "steps": steps,
    }
    step, before = resume(out, draft, optimizer, identity)
    start = last_saved = time.monotonic()
    curve = (out / CURVE).open("a")
    stream = endless_batches(answers, recipe.tokens_per_batch, recipe.seed, step)
    while True:
        seconds = before + time.monotonic() - start
        share = max(step / steps, seconds / (60 * minutes) if minutes else 0.0)
        if share >= 1:
            break
        rate = learning_rate(recipe, step, share)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = draft_loss(draft, make_batch(next(stream), vocabulary), bf16=recipe.bf16)
        if not torch.isfinite(loss):
            raise ValueError(f"the loss is {loss.item()} at step {step}; try a lower learning rate than {rate:g}")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(draft.parameters(), recipe.clip)
        optimizer.step()
        curve.write(f"{step},{loss.item():.6f},{rate:.3e}\n")
        step += 1
        told(Progress(step, loss.item(), rate, share))
        if time.monotonic() - last_saved >= checkpoint_seconds:
            curve.flush()
            save_checkpoint(out, draft, optimizer, identity, step, before + time.monotonic() - start)
            last_saved = time.monotonic()
    curve.close()
    save_checkpoint(out, draft, optimizer, identity, step, seconds)
    return step


def save_checkpoint(
    out: Path, draft: SmallDraft, optimizer: torch.optim.Optimizer, identity: dict, step: int, seconds: float
) -> None:
    tensors = {}
    for name, parameter in draft.named_parameters():
        tensors[f"weight.{name}"] = parameter.detach()
        for key, value in optimizer.state[parameter].items():
            tensors[f"{key}.{name}"] = value
    metadata = {"identity": json.dumps(identity), "step": str(step), "seconds": repr(seconds)}
    write_atomically(out / CHECKPOINT, save(tensors, metadata=metadata))


def resume(out: Path, draft: SmallDraft, optimizer: torch.optim.Optimizer, identity: dict) -> tuple[int, float]:
    """Load the checkpoint into draft and optimizer; step and seconds spent so far (0, 0.0 without a checkpoint)."""
    path, curve = out / CHECKPOINT, out / CURVE
    header = "step,loss,learning_rate"
    if not path.exists():
        write_atomically(curve, f"{header}\n".encode())
        return 0, 0.0
    try:
        with opened(path) as file:
            metadata = file.metadata() or {}
            found, step, seconds = json.loads(metadata["identity"]), int(metadata["step"]), float(metadata["seconds"])
            if differing := sorted(key for key in identity if found.get(key) != identity[key]):
                raise ValueError(
                    f"{path} belongs to a training with another {' and '.join(differing)}; give another --out or "
                    "delete it"
                )
            for name, parameter in draft.named_parameters():
                keys = ("exp_avg", "exp_avg_sq", "step")
                optimizer.state[parameter] = {key: file.get_tensor(f"{key}.{name}") for key in keys}
                parameter.data.copy_(file.get_tensor(f"weight.{name}"))
    except (SafetensorError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a checkpoint of this training ({error}); delete it to start over") from error
    rows = [row for row in curve.read_text().splitlines()[1:] if row.count(",") == 2 and int(row.split(",")[0]) < step]
    write_atomically(curve, "\n".join([header, *rows, ""]).encode())
    return step, seconds


def name_of_all(answers: Sequence[Answer]) -> str:
    """A digest of what training reads of the answers, in their order."""
    total = sha256()
    for answer in answers:
        total.update(repr((answer.prompt_ids, answer.answer_ids)).encode())
        for kept in (answer.top_ids_AT, answer.top_logprobs_AT):
            if kept is not None:
                total.update(kept.numpy().tobytes())
    return total.hexdigest()[:DIGEST_LETTERS]
