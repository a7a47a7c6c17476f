"""Everything that decides what training makes of the same answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KINDS = ("eagle1", "eagle3", "eagle3.1", "mtp", "heads")


@dataclass(frozen=True, kw_only=True)
class TTTRecipe:
    """One training.

    Attributes:
        draft: the kind, one of KINDS.
        ttt: unrolled steps; 1 is training without TTT. For `heads` the number of heads.
        steps: optimiser steps; each reads `rows` packed rows of at most `seq` tokens.
        step_decay: step k's loss weighs step_decay^k, divided by the sum of the weights.
        draft_vocab_size: N, for EAGLE-3, 3.1 and heads; capped at the target's vocabulary.
        feature_layers: empty for the kind's own choice.
        intermediate_size: width of the draft's feed-forward; 0 for the target's.
        mtp_branch: "own", or "step" as public MTP trainers unroll.
        oov: what becomes of a position whose target token the draft cannot say: "keep" teaches it the rest of the
            target's distribution, renormalised; "drop" leaves it out. It counts as wrong in every accuracy.
        optimizer: "adamw", or "muon", which trains the layer's matrices by Muon at `matrix_learning_rate` and the rest
            by AdamW: on little data about half the steps for the same acceptance.
        weight_decay: decoupled, times the learning rate. Every Muon step has the same size: without decay the weights
            grow with the number of steps, and attention saturates.
        warm_up: share of the steps over which the learning rate rises; then half a cosine down to zero.
        clip: largest gradient norm.
        bf16: matrix products in bfloat16; weights, moments, softmax and loss stay in fp32.
        checkpointing: recompute activations in backward.
        logit_chunk: hold logits for so many places at a time, and make them again in backward; 0 holds all. Less memory
            for two more head products a step, the draft's and the target's; the same loss.
        evaluate_every: steps between looks at the held-out acceptance length at chains of `k`.
        patience: stop after so many looks without a better one; 0 never stops early.
    """

    draft: str
    ttt: int = 5
    steps: int = 1000
    seq: int = 512
    rows: int = 1
    seed: int = 0
    learning_rate: float = 1e-3
    optimizer: Literal["adamw", "muon"] = "adamw"
    matrix_learning_rate: float = 4e-3
    warm_up: float = 0.03
    weight_decay: float = 0.01
    clip: float = 0.5
    step_decay: float = 0.8
    draft_vocab_size: int = 4096
    feature_layers: tuple[int, ...] = ()
    intermediate_size: int = 0
    mtp_branch: Literal["own", "step"] = "own"
    oov: Literal["keep", "drop"] = "keep"
    bf16: bool = True
    checkpointing: bool = False
    logit_chunk: int = 0
    evaluate_every: int = 200
    patience: int = 0
    k: int = 4

    def __post_init__(self) -> None:
        if self.draft not in KINDS:
            raise ValueError(f"draft {self.draft!r} cannot be trained here; right is one of {', '.join(KINDS)}")
        for name in ("ttt", "steps", "rows", "evaluate_every", "k", "draft_vocab_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; right is at least 1")
        if self.logit_chunk < 0:
            raise ValueError(f"logit_chunk is {self.logit_chunk}; right is a number of places, or 0 for all at once")
        if self.seq < 8:
            raise ValueError(f"seq is {self.seq}; a row needs room for a prompt and an answer, at least 8 tokens")
        if not 0 <= self.warm_up < 1:
            raise ValueError(f"warm_up is {self.warm_up}; it is a share of the steps, from 0 to below 1")
        if min(self.learning_rate, self.matrix_learning_rate, self.clip) <= 0 or not 0 < self.step_decay <= 1:
            raise ValueError("learning rates and clip are above 0, step_decay above 0 and at most 1")
        if self.weight_decay < 0:
            raise ValueError(f"weight_decay is {self.weight_decay}; right is at least 0")

    @property
    def weights(self) -> list[float]:
        """Weight of each step's loss; they sum to one."""
        raw = [self.step_decay**step for step in range(self.ttt)]
        return [weight / sum(raw) for weight in raw]
