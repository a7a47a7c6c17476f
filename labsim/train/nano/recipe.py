"""Every number of a `nano` run in one place: the model, the optimiser, the schedule, the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """A stretch of training with one row length. `until` is the progress (0 to 1) at which it ends."""

    until: float
    length: int
    rows: int


@dataclass(frozen=True)
class Budget:
    """How long to train: a number of tokens (the run is then a function of the seed) or minutes. Exactly one is given.

    ValueError for none or both, or a value that is not positive.
    """

    tokens: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if (self.tokens is None) == (self.minutes is None):
            raise ValueError(f"tokens = {self.tokens}, minutes = {self.minutes}: give exactly one of the two")
        name, value = ("tokens", self.tokens) if self.minutes is None else ("minutes", self.minutes)
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} = {value} is not a budget (give a number above 0)")

    def progress(self, tokens: int, seconds: float) -> float:
        """Share of the budget that is spent, 0 to 1."""
        spent = tokens / self.tokens if self.tokens is not None else seconds / (60 * self.minutes)
        return min(1.0, spent)


@dataclass(frozen=True)
class Recipe:
    """The defaults are the shipped model's."""

    vocab_size: int = 4096
    hidden_size: int = 256
    num_layers: int = 8
    num_heads: int = 8
    num_kv_heads: int = 2
    intermediate_size: int = 704
    max_positions: int = 4096
    rope_theta: float = 10000.0
    phases: tuple[Phase, ...] = (Phase(0.12, 256, 8), Phase(0.80, 512, 8), Phase(0.95, 1024, 4), Phase(1.0, 2048, 2))
    rows_per_shard: int = 512
    learning_rate: float = 3e-3
    matrix_learning_rate: float = 4e-3
    matrix_optimizer: str = "muon"
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    clip: float = 1.0
    warm_up_steps: int = 60
    bf16: bool = True
    # Copying drills per worker and step, and how long some heads are told where to look (see guidance.py).
    drills: int = 2
    drill_length: int = 160
    drill_weight: float = 0.5
    hint_weight: float = 0.5
    hint_until: float = 0.25
    tokenizer_characters: int = 12_000_000
    evaluation_rows: int = 8
    evaluation_every_seconds: float = 240.0
    checkpoint_every_seconds: float = 120.0

    def phase_at(self, progress: float) -> int:
        """Index of the phase that this progress belongs to."""
        return next((i for i, phase in enumerate(self.phases) if progress < phase.until), len(self.phases) - 1)

    def scale_at(self, step: int, progress: float) -> float:
        """What the learning rates are multiplied by: linear warm-up over steps, then a cosine to 0 over the budget."""
        return min(1.0, (step + 1) / self.warm_up_steps) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
