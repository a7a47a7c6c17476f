"""What a training step of a draft keeps in memory, tensor by tensor, in closed form.

Backward needs what forward saved, so the peak of a step is a sum that can be written down before anything runs. Per
token and TTT step a layer keeps (`step_tensors` lists them with their widths): the joined input of the projections,
queries, keys, values, the attention's output and log-sum-exps, the residual stream, the feed-forward's input and its
four intermediates, the state handed on; and where the step is judged, the head's input and its log-softmax. So

    peak = weights + moments                                  parameters, whatever L and k
         + L (states and their copies)                        the taps: once
         + P N 4                                              the teacher's distribution: once
         + k L (layer)                                        activations: k times
         + (k + 2) P N 4                                      logits: a log-softmax per step, two more being made

It is a *sum*: taps and teacher come once, activations k times, logits k times, and nothing is multiplied by the
target's layers. Everything is linear in L as long as no score matrix is kept. Attention that keeps its scores
(`attention="naive"`) adds, in step j, heads x L x (j + 1) L: quadratic in L, and in k.

Three remedies, each of which cuts one term:
  - chunked logits: P N of the teacher and of every step becomes C N of one chunk of C places;
  - checkpointing: of each step only its state, keys and values stay; one layer at a time is computed again;
  - sequence parallelism: L and P are divided by the number of ranks; the weights are not.

The peak is the largest of several moments: the end of the forward, each step's logits and layer in the backward (by
then gradients lie beside what is left of the activations), and the optimiser's. Each is computed and the largest taken;
the parts of a `StepBytes` are those of that moment, so they add up.

How far it holds: checked within 10 % against counted live bytes of the trainer's own step on a CPU (`memory_measure`,
tests). With `device="cuda"` two things differ by construction and are *not* measured here: a norm is one kernel that
saves its input but not the normed values, and flash attention repeats keys and values to all heads while it runs.
Ranks of sequence parallelism are computed from the length of a shard, without the buffers of collectives.

Shapes: L positions of a row, P places that the teacher judges, k TTT steps, C places of a chunk, H draft width, F
width of the concatenated taps, E target width, A query width (heads x head dimension), K key width, D head dimension, I
feed-forward width, V target vocabulary, N draft vocabulary. All results are in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal

FP32 = 4
TEACHER_ROWS = 2 * 256  # logits over the whole vocabulary exist for two of loss.TEACHER_CHUNK: the last and the next
WHOLE_VOCABULARY = ("eagle1", "mtp")  # kinds that speak through the target's head
PARTS = ("parameters", "gradients", "optimizer", "features", "teacher", "logits", "activations")


@dataclass(frozen=True, kw_only=True)
class DraftShape:
    """Sizes of a draft, one of `recipe.KINDS`. `features` counts the target layers it reads.

    Parallel heads have no layer of their own: their heads, head_dim and intermediate are 0.
    """

    kind: str
    hidden: int
    target_hidden: int
    vocab: int
    draft_vocab: int
    features: int
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    intermediate: int = 0

    @classmethod
    def of(cls, config: object) -> DraftShape:
        """Of a draft's own config (`EagleConfig`, `MTPConfig`, `HeadsConfig`)."""
        size = lambda name: getattr(config, name, 0)  # noqa: E731
        layer = config.kind != "heads"  # type: ignore[attr-defined]
        return cls(
            kind=config.kind,  # type: ignore[attr-defined]
            hidden=size("hidden_size"),
            target_hidden=size("target_hidden_size") or size("hidden_size"),
            vocab=size("vocab_size"),
            draft_vocab=size("draft_vocab_size"),
            features=len(size("feature_layers")),
            heads=size("num_heads") if layer else 0,
            kv_heads=size("num_kv_heads"),
            head_dim=size("head_dim"),
            intermediate=size("intermediate_size"),
        )

    @classmethod
    def beside(cls, config: object, kind: str, draft_vocab: int) -> DraftShape:
        """Of the draft that `build` makes beside a target of that `ModelConfig`."""
        names = {
            "heads": "num_heads",
            "kv_heads": "num_kv_heads",
            "head_dim": "head_dim",
            "intermediate": "intermediate_size",
        }
        layer = {} if kind == "heads" else {ours: getattr(config, theirs) for ours, theirs in names.items()}
        hidden, vocab = config.hidden_size, config.vocab_size  # type: ignore[attr-defined]
        taps = 3 if kind.startswith("eagle3") else 1
        return cls(
            kind=kind, hidden=hidden, target_hidden=hidden, vocab=vocab, draft_vocab=draft_vocab, features=taps, **layer
        )

    @property
    def feature_width(self) -> int:
        return self.features * self.target_hidden

    @property
    def rows(self) -> int:
        """Rows of the head: N, or V where the target's head is borrowed."""
        return self.vocab if self.kind in WHOLE_VOCABULARY else self.draft_vocab

    def matrices(self, ttt: int) -> dict[str, int]:
        """Trained parameters of each weight matrix. Parallel heads have one set per step."""
        h, a, kv = self.hidden, self.heads * self.head_dim, 2 * self.kv_heads * self.head_dim
        if self.kind == "heads":
            return {"blocks": ttt * h * h, "head": ttt * h * self.draft_vocab}
        third = self.kind.startswith("eagle3")
        found = {
            "join": self.feature_width * h if third else 2 * h * h,
            "qkv": (2 * h if third else h) * (a + kv),
            "o": a * h,
            "feed_forward": 3 * h * self.intermediate,
        }
        return found | ({"head": h * self.draft_vocab} if third else {})

    def largest(self, layer: bool = False) -> int:
        """Parameters of the largest matrix but the head; `layer`: of those that every step runs through."""
        h, a = self.hidden, self.heads * self.head_dim
        if self.kind == "heads":
            return h * h
        third = self.kind.startswith("eagle3")
        join = self.feature_width if third else 2 * h
        return h * max(self.intermediate, a * (2 if third else 1), 0 if layer and third else join)

    def vectors(self, ttt: int) -> int:
        """Trained parameters of norms."""
        norms = {"eagle1": 1, "eagle3": 4, "eagle3.1": 4, "mtp": 5, "heads": ttt}[self.kind] * self.hidden
        return norms + (self.feature_width if self.kind == "eagle3.1" else 0)

    def parameters(self, ttt: int) -> int:
        """Trained parameters; embedding, and a borrowed head, are not among them."""
        return sum(self.matrices(ttt).values()) + self.vectors(ttt)

    def borrowed(self) -> int:
        """Parameters of the target that the draft reads from a float32 copy: embedding, and head where borrowed."""
        if self.kind == "heads":
            return 0
        return self.vocab * self.hidden * (2 if self.kind in WHOLE_VOCABULARY else 1)


@dataclass(frozen=True, kw_only=True)
class StepSetting:
    """How a step is run; the fields of the same names are those of `TTTRecipe`.

    Attributes:
        positions: L of a row, over all ranks.
        places: P, positions that the teacher judges: the answer's tokens; None is all.
        rows: rows of a step, one after the other: from the second on, gradients lie beside the activations.
        sequence_parallel: ranks that share a row.
        state_bytes: of a value of the target's states, 4 or 2.
        device: "cpu" is what is measured; see the module's docstring for "cuda".
    """

    positions: int
    ttt: int = 7
    places: int | None = None
    rows: int = 1
    bf16: bool = True
    attention: Literal["fused", "naive"] = "fused"
    checkpointing: bool = False
    logit_chunk: int = 0
    optimizer: Literal["adamw", "muon"] = "adamw"
    sequence_parallel: int = 1
    state_bytes: int = 2
    device: Literal["cpu", "cuda"] = "cuda"

    def __post_init__(self) -> None:
        for name in ("positions", "ttt", "rows", "sequence_parallel"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; right is a whole number of at least 1")
        if self.places is not None and not 0 < self.places <= self.positions:
            raise ValueError(f"places is {self.places}; right is 1 to positions ({self.positions})")
        if self.logit_chunk < 0:
            raise ValueError(f"logit_chunk is {self.logit_chunk}; right is a number of places, or 0 for all at once")
        if self.attention not in ("fused", "naive"):
            raise ValueError(f"attention is {self.attention!r}; right is 'fused' or 'naive'")

    @property
    def local_positions(self) -> int:
        """L of one rank."""
        return ceil(self.positions / self.sequence_parallel)

    @property
    def local_places(self) -> int:
        return ceil((self.places or self.positions) / self.sequence_parallel)

    @property
    def compute(self) -> int:
        """Bytes of a value in matrix products."""
        return 2 if self.bf16 else FP32


@dataclass(frozen=True)
class StepBytes:
    """Bytes of one rank at the worst moment of a step, by part; `resident` of them lie there before it begins.

    `moments` holds the totals of all moments considered, `moment` the name of the largest.
    """

    parts: Mapping[str, float]
    resident: float
    moment: str
    moments: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.parts.values())

    @property
    def step(self) -> float:
        """Above what lies there before: what `live_bytes.peak_bytes` of a step counts."""
        return self.total - self.resident


def step_tensors(shape: DraftShape, setting: StepSetting, step: int = 0) -> dict[str, float]:
    """Bytes per token that TTT step `step` saves for its backward, by tensor, logits and the head's input left out."""
    h, d, c, i = shape.hidden, shape.head_dim, setting.compute, shape.intermediate
    a, kv = shape.heads * d, 2 * shape.kv_heads * d
    normed = h * FP32 if setting.device == "cpu" else FP32  # the normed values, or one number per token
    kind = shape.kind

    def read(width: int, readers: int, narrow: bool = False) -> int:
        """Input of `readers` products: saved once in fp32; autocast casts a wide one for each."""
        return width * FP32 if not setting.bf16 else width * 2 * (1 if narrow else readers)

    if kind == "heads":
        return {"block": h * c, "block input": h * 2 if setting.bf16 else 0}
    # A stream that a product starts stays as narrow as the product; norms widen it to fp32 and save what they read.
    if kind.startswith("eagle3"):
        entry = {"embedding, normed": h * FP32, "state, normed": normed, "joined": read(2 * h, 3)}
    elif kind == "mtp":
        entry = {"embedding, normed": h * FP32, "state, normed": normed, "joined": read(2 * h, 1)}
        entry |= {"stream": h * FP32, "stream, normed": normed, "projections' input": read(h, 3)}
    else:
        entry = {"joined": read(2 * h, 1), "stream": read(h, 3, narrow=True)}
    tensors = entry | {
        "angles": 2 * d * FP32,
        "queries": a * c,
        "keys and values": kv * c,
        "attention output": a * c,
        "log-sum-exp": shape.heads * FP32,
        "residual": h * FP32,
        "residual, normed": normed,
        "feed-forward input": read(h, 2),
        "feed-forward": 4 * i * c,
    }
    if setting.attention == "naive":
        tensors["log-sum-exp"] = 0
        keys = (step + 1) * setting.local_positions
        # On CUDA autocast's softmax is float32, with a narrow copy for the product behind it.
        width = setting.compute + (FP32 if setting.bf16 and setting.device == "cuda" else 0)
        tensors |= {"scores": keys * shape.heads * width, "mask": keys, "joined keys": (step + 1) * kv * c}
    if kind == "eagle1":
        return tensors
    tensors |= {"output": h * FP32, "output, normed": normed}
    if kind != "eagle3" and step < setting.ttt - 1:
        # EAGLE-3 hands on the output itself; 3.1 and MTP the normed one, another tensor, which the next step saves.
        tensors["state handed on"] = h * FP32
    return tensors


def state_width(shape: DraftShape, setting: StepSetting) -> int:
    """Bytes per token of the state that a step hands on: EAGLE-1's is as narrow as the product that makes it."""
    return shape.hidden * (setting.compute if shape.kind == "eagle1" else FP32)


def kept_tensors(shape: DraftShape, setting: StepSetting) -> dict[str, float]:
    """Bytes per token that a step keeps with checkpointing: its state, and the keys and values that later steps see."""
    kv = 2 * shape.kv_heads * shape.head_dim * setting.compute
    return {"state handed on": state_width(shape, setting), "keys and values": kv}
