"""Arms of a comparison: drafts that differ in their architecture, or in their training, and in nothing else.

    arm = architecture (eagle3, mtp) x unrolled steps of training-time test (1 is training without it)

All arms read the same answers of the same target, in the same order for the same seed, take as many optimiser steps,
and have as many trained parameters as can be had: MTP speaks through its target's head and has one feature layer to
join in place of three, so its feed-forward is widened until the counts agree. What remains different is the
architecture itself, and how many steps are unrolled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..models.config import ModelConfig
from ..train.ttt.recipe import TTTRecipe

# "eagle3+flag" is EAGLE-3 with one of the two changes that make it EAGLE-3.1.
KIND_NAMES = {
    "eagle3": "EAGLE-3",
    "eagle3+fc_norm": "EAGLE-3 + fc_norm",
    "eagle3+norm_output": "EAGLE-3 + norm_output",
    "eagle3.1": "EAGLE-3.1",
    "mtp": "MTP",
}
DEPTHS = 7


@dataclass(frozen=True)
class Arm:
    """What distinguishes a training. `branch` is "step" for the public form of MTP training, see `TTTRecipe`."""

    kind: str
    ttt: int
    branch: str = "own"

    @property
    def recipe_kind(self) -> str:
        """The kind as a recipe names it."""
        return self.kind.partition("+")[0]

    @property
    def flags(self) -> dict[str, bool]:
        """Settings of `EagleConfig` beyond those of the kind."""
        flag = self.kind.partition("+")[2]
        return {flag: True} if flag else {}

    @property
    def key(self) -> str:
        """As a directory name."""
        return f"{self.kind}-ttt{self.ttt}" + ("" if self.branch == "own" else f"-{self.branch}")

    @property
    def name(self) -> str:
        """As a legend says it."""
        trained = "without TTT" if self.ttt == 1 else f"TTT {self.ttt}"
        return f"{KIND_NAMES[self.kind]}, {trained}" + ("" if self.branch == "own" else ", public form")


# The 2 x 2 first, which the notebook cannot do without; then what lies between, and the public form of MTP training.
CROSSED = tuple(Arm(kind, ttt) for ttt in (1, 4) for kind in ("eagle3", "mtp"))
ARMS = (*CROSSED, Arm("eagle3", 2), Arm("mtp", 2), Arm("mtp", 4, "step"))


@dataclass(frozen=True)
class Settings:
    """What all trainings of a grid share. `train` and `held_out` count prompts by domain."""

    train: Mapping[str, int]
    held_out: Mapping[str, int]
    max_new_tokens: int = 64
    longest: int = 256
    seq: int = 320
    steps: int = 160
    learning_rate: float = 1e-3
    matrix_learning_rate: float = 6e-3
    draft_vocab_size: int = 2048
    intermediate_size: int = 256
    data_seed: int = 11

    def __post_init__(self) -> None:
        if self.longest + self.max_new_tokens > self.seq:
            raise ValueError(
                f"prompts of {self.longest} tokens and answers of {self.max_new_tokens} do not fit a row of {self.seq}"
            )


NANO = Settings({"agent": 100, "chat": 500}, {"agent": 14, "chat": 12})


# For a model of one's own on a GPU: its feed-forward width, longer texts, a vocabulary of the usual size.
LARGE = Settings(
    {"agent": 200, "chat": 200, "code": 200, "document": 200},
    {"agent": 40, "chat": 20},
    max_new_tokens=256,
    longest=1500,
    seq=2048,
    steps=2000,
    learning_rate=5e-4,
    draft_vocab_size=32_000,
    intermediate_size=0,
)


def matched_width(target: ModelConfig, settings: Settings) -> int:
    """Feed-forward width of an MTP module with as many trained parameters as the EAGLE-3 draft of these settings.

    EAGLE-3 trains a join of three layers, projections of 2H inputs and a head of N rows; MTP a join of 2H and
    projections of H. The feed-forward has three matrices.
    """
    size, inner = target.hidden_size, settings.intermediate_size or target.intermediate_size
    qkv = (target.num_heads + 2 * target.num_kv_heads) * target.head_dim
    eagle = (
        3 * size * size + 2 * size * qkv + 3 * size * inner + min(settings.draft_vocab_size, target.vocab_size) * size
    )
    return max(1, round((eagle - 2 * size * size - size * qkv) / (3 * size)))


def recipe_of(arm: Arm, seed: int, target: ModelConfig, settings: Settings) -> TTTRecipe:
    """The recipe of one training."""
    width = matched_width(target, settings) if arm.kind == "mtp" else settings.intermediate_size
    return TTTRecipe(
        draft=arm.recipe_kind,
        ttt=arm.ttt,
        steps=settings.steps,
        seq=settings.seq,
        seed=seed,
        learning_rate=settings.learning_rate,
        optimizer="muon",
        matrix_learning_rate=settings.matrix_learning_rate,
        draft_vocab_size=settings.draft_vocab_size,
        intermediate_size=width,
        mtp_branch=arm.branch,  # type: ignore[arg-type]
        bf16=False,
        evaluate_every=settings.steps,
        k=DEPTHS,
    )
