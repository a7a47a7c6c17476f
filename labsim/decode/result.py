"""What a generation did: tokens, and the counts that explain its speed.

Three numbers are easily confused, so each has one name. `acceptance_length` is tokens per verify step, bonus included;
`draft_acceptance_rate` is accepted/drafted; `survival[i]` is the share of steps that accepted more than i drafted
tokens. The identity acceptance_length = 1 + sum(survival) holds by construction, also when drafts differ in length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

FinishReason = Literal["stop", "length", "context"]


@dataclass(frozen=True)
class Step:
    """One verify step of one row.

    Attributes:
        tokens, parents: the draft (see `labsim.drafts.protocol.Draft`).
        path: accepted drafted tokens, as indices into `tokens`; only those that came before a stop token.
        token: the target's own token after them; None when a stop token among the accepted ones ended the answer.
        kind: `bonus`, `corrected`, or `stop` when there is no such token.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    path: tuple[int, ...]
    token: int | None
    kind: Literal["bonus", "corrected", "stop"]

    @property
    def emitted(self) -> tuple[int, ...]:
        """The tokens that this step added to the answer."""
        accepted = tuple(self.tokens[node] for node in self.path)
        return accepted if self.token is None else (*accepted, self.token)


@dataclass(frozen=True)
class PhaseSeconds:
    """Wall time of the whole batch by phase, in seconds."""

    prefill: float = 0.0
    propose: float = 0.0
    verify: float = 0.0
    accept: float = 0.0

    @property
    def decode(self) -> float:
        """Everything after the prompt."""
        return self.propose + self.verify + self.accept


@dataclass(frozen=True)
class GenerationResult:
    """One answer.

    Attributes:
        prompt_tokens: ids that went in.
        tokens: ids that came out, a stop token included. The first comes from the prefill, the others from `steps`.
        finish_reason: `stop` (a stop token), `length` (max_new_tokens) or `context` (the model's context is full).
        steps: verify steps, one target forward each.
        prefill_forwards: target forwards over the prompt.
        seconds: wall time by phase; shared by the rows of a batch, so that rates of a row that ends early are too low.
        weight_bytes: bytes of weights that one target forward reads.
    """

    prompt_tokens: tuple[int, ...]
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    steps: tuple[Step, ...]
    prefill_forwards: int
    seconds: PhaseSeconds
    weight_bytes: int

    @property
    def target_forwards(self) -> int:
        return self.prefill_forwards + len(self.steps)

    @cached_property
    def drafted(self) -> int:
        return sum(len(step.tokens) for step in self.steps)

    @cached_property
    def accepted(self) -> int:
        return sum(len(step.path) for step in self.steps)

    @property
    def draft_acceptance_rate(self) -> float:
        """accepted/drafted (vLLM's "draft acceptance rate"); 0 when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def acceptance_length(self) -> float:
        """Mean tokens per verify step: the accepted ones and the target's own."""
        return 1 + self.accepted / len(self.steps) if self.steps else 1.0

    @cached_property
    def histogram(self) -> tuple[int, ...]:
        """How many steps accepted 0, 1, 2, ... drafted tokens; as long as the deepest draft."""
        counts = [0] * (1 + max((depth_of(step.parents) for step in self.steps), default=0))
        for step in self.steps:
            counts[len(step.path)] += 1
        return tuple(counts)

    @cached_property
    def survival(self) -> tuple[float, ...]:
        """P(at least i drafted tokens accepted in a step), i = 1, 2, ..., over all steps."""
        total = len(self.steps)
        return tuple(sum(self.histogram[i:]) / total for i in range(1, len(self.histogram)))

    @property
    def tokens_per_second(self) -> float:
        """Decode speed: tokens after the first, over the time after the prefill. NaN when there were none."""
        return (len(self.tokens) - 1) / self.seconds.decode if self.steps else float("nan")

    @property
    def weight_bandwidth(self) -> float:
        """Bytes of weights per second of verify time: how close decoding comes to the memory's limit."""
        return len(self.steps) * self.weight_bytes / self.seconds.verify if self.steps else float("nan")


def depth_of(parents: tuple[int, ...]) -> int:
    """Depth of the deepest node of a draft, 0 for an empty one."""
    depths: list[int] = []
    for parent in parents:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return max(depths, default=0)
