"""A small training in float64 that any number of ranks can run; a module, because real ranks import it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import torch

from labsim.drafts.eagle import EagleDraft
from labsim.drafts.eagle_config import EagleConfig
from labsim.drafts.vocabulary import DraftVocabulary
from labsim.features.source import TargetStates
from labsim.models.config import ModelConfig
from labsim.parallel.mesh import Mesh
from labsim.train.ttt.data import Document
from labsim.train.ttt.loop import Report, train
from labsim.train.ttt.recipe import TTTRecipe

VOCAB, DRAFT_VOCAB, HIDDEN = 96, 40, 32
RECIPE = TTTRecipe(
    draft="eagle3.1", ttt=3, steps=50, seq=48, rows=2, draft_vocab_size=DRAFT_VOCAB, bf16=False, evaluate_every=25,
    k=3, learning_rate=3e-3,
)  # fmt: skip


class MadeUp:
    """States that follow from a document's tokens alone."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        draw = torch.Generator().manual_seed(3)
        self.table_VS = torch.randn(VOCAB, 4 * HIDDEN, generator=draw, dtype=torch.float64)

    def read(self, documents: Sequence[Sequence[int]]) -> list[TargetStates]:
        found = []
        for document in documents:
            own_TS = self.table_VS[torch.tensor(document)]
            states = own_TS + 0.5 * own_TS.roll(1, 0) + 0.05 * torch.arange(len(own_TS))[:, None]
            found.append(TargetStates(states[:, : 3 * HIDDEN].to(self.dtype), states[:, 3 * HIDDEN :].to(self.dtype)))
        return found

    def read_at(self, document: Sequence[int], features_at: torch.Tensor, last_at: torch.Tensor) -> TargetStates:
        [states] = self.read([document])
        return TargetStates(states.features_TF[features_at], states.last_TE[last_at])


def documents(count: int, seed: int) -> list[Document]:
    """Of 9 to 40 tokens, some with an answer that begins late: a rank may hold no token of any answer."""
    draw = torch.Generator().manual_seed(seed)
    found = []
    for index in range(count):
        length = int(torch.randint(9, 41, (1,), generator=draw))
        tokens = torch.randint(0, VOCAB, (length,), generator=draw).tolist()
        start = int(torch.randint(2, length - 3, (1,), generator=draw))
        found.append(Document((f"d{seed}-{index}", 0), "chat", tuple(tokens), start, True))
    return found


class Head:
    """The target's head, in any precision."""

    def __init__(self, head_VH: torch.Tensor) -> None:
        self.head_VH, self.dtype = head_VH, head_VH.dtype

    def __call__(self, states_PH: torch.Tensor) -> torch.Tensor:
        return states_PH @ self.head_VH.T


def training(
    mesh: Mesh,
    out: Path,
    kind: str,
    dtype: torch.dtype,
    draft_kind: str = "eagle3.1",
    steps: int = 50,
    checkpoint_every: int | None = None,
    heard: Callable[[int], None] = lambda _: None,
) -> dict[str, object]:
    """What became of the training on this rank; `out` is shared by all."""
    generator = torch.Generator().manual_seed(11)
    embedding_VH, head_VH = (torch.randn(VOCAB, HIDDEN, generator=generator, dtype=torch.float64) for _ in range(2))
    beside = ModelConfig("llama", VOCAB, HIDDEN, 64, 8, 4, 2, 8, 256, 1e-6, False)
    build = EagleConfig.eagle31 if draft_kind == "eagle3.1" else EagleConfig.eagle3
    draft = EagleDraft(build(beside, draft_vocab_size=DRAFT_VOCAB), embedding_VH.to(dtype)).initialise(5).to(dtype)
    told: list[float] = []
    norms: list[float] = []

    def hear(report: Report) -> None:
        told.append(report.loss)
        norms.append(report.gradient_norm)
        heard(report.counters.step)

    counters = train(
        draft,
        DraftVocabulary.of(torch.arange(0, 2 * DRAFT_VOCAB, 2), VOCAB),
        SimpleNamespace(name="made up", model=SimpleNamespace(head=Head(head_VH.to(dtype)))),
        MadeUp(dtype),
        documents(12, 1),
        documents(5, 2),
        replace(RECIPE, draft=draft_kind, steps=steps),
        out,
        identity={"made": "up"},
        told=hear,
        checkpoint_every=checkpoint_every,
        mesh=mesh,
        layout=kind,
    )
    return {
        "losses": told,
        "norms": norms,
        "weights": {name: parameter.detach().clone() for name, parameter in draft.named_parameters()},
        "best": counters.best,
        "counters": (counters.step, counters.rows, counters.tokens, counters.best_step),
        "bytes": mesh.bytes_sent,
    }
