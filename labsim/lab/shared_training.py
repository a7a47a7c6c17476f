"""One training, on one rank or on several: what it needs as plain tensors, so that real processes can be given it.

The trainer is the course's own (`labsim.train.ttt.loop`). A `Lesson` holds what is the same for every rank: the draft's
first weights, the target's head and embedding, the documents and the target's states of them. A light module, because
real ranks import it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import torch

from ..drafts.eagle import EagleDraft
from ..drafts.eagle_config import EagleConfig
from ..drafts.vocabulary import DraftVocabulary
from ..features.source import Online, TargetStates
from ..models.load import Target
from ..parallel import launch, logical
from ..parallel.layout import Kind, Layout
from ..parallel.mesh import Mesh
from ..train.ttt.build import build, start_from
from ..train.ttt.data import Document, PackedRow, endless_rows
from ..train.ttt.loop import Report, train
from ..train.ttt.loss import Teacher, entropy, ttt_steps
from ..train.ttt.part import Part
from ..train.ttt.recipe import TTTRecipe
from .planted_shared import faulty_train


@dataclass(frozen=True)
class Lesson:
    """What every rank is given. `states` by the tokens of a document."""

    config: EagleConfig
    weights: dict[str, torch.Tensor]
    embedding_VH: torch.Tensor
    head_VE: torch.Tensor
    vocabulary: DraftVocabulary
    training: tuple[Document, ...]
    held_out: tuple[Document, ...]
    states: dict[tuple[int, ...], TargetStates]
    recipe: TTTRecipe
    target: str

    @classmethod
    def of(
        cls,
        target: Target,
        recipe: TTTRecipe,
        training: Sequence[Document],
        held_out: Sequence[Document],
        begin: Path | None = None,
    ) -> Lesson:
        """A draft that was trained before, or a fresh one beside its target; and the target's states of all documents
        that the recipe's steps read.

        ValueError for a draft of another kind or target.
        """
        draft, vocabulary = start_from(begin, recipe, target) if begin else build(recipe, target, training)
        rows = endless_rows(training, recipe.seq, recipe.seed, 0)
        read = [document for _ in range(recipe.steps * recipe.rows) for document in next(rows)]
        online = Online(target.model, draft.config.feature_layers)
        needed = dict.fromkeys(document.tokens for document in [*read, *held_out])
        model = target.model
        return cls(
            draft.config,
            {name: parameter.detach().clone() for name, parameter in draft.state_dict().items()},
            model.embedding_VE.float(),
            model.head.weight_OI.float(),
            vocabulary,
            tuple(training),
            tuple(held_out),
            {tokens: online.read([tokens])[0] for tokens in needed},
            recipe,
            target.name,
        )

    def draft(self, dtype: torch.dtype) -> EagleDraft:
        """The draft as it begins, in that precision."""
        found = EagleDraft(self.config, self.embedding_VH.to(dtype))
        found.load_state_dict(self.weights)
        return found.to(dtype)

    def row(self, number: int) -> PackedRow:
        """The row that step `number` reads first."""
        return PackedRow.of(next(endless_rows(self.training, self.recipe.seq, self.recipe.seed, number)))


class Kept:
    """The lesson's states as a source, in one precision."""

    def __init__(self, lesson: Lesson, dtype: torch.dtype) -> None:
        self.states, self.dtype = lesson.states, dtype

    def read(self, documents: Sequence[Sequence[int]]) -> list[TargetStates]:
        found = [self.states[tuple(document)] for document in documents]
        return [TargetStates(one.features_TF.to(self.dtype), one.last_TE.to(self.dtype)) for one in found]

    def read_at(self, document: Sequence[int], features_at: torch.Tensor, last_at: torch.Tensor) -> TargetStates:
        one = self.states[tuple(document)]
        return TargetStates(one.features_TF[features_at].to(self.dtype), one.last_TE[last_at].to(self.dtype))


class Head:
    """The target's head in one precision."""

    def __init__(self, head_VE: torch.Tensor) -> None:
        self.head_VE, self.dtype = head_VE, head_VE.dtype

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        return states @ self.head_VE.T


class Stopped(Exception):
    """In place of a kill: the process ends, the plan of the training stays."""


@dataclass(frozen=True)
class Trained:
    """What one rank tells: loss and gradient norm of each step that it took, its last weights, the bytes it sent."""

    losses: list[float]
    norms: list[float]
    accuracy: list[tuple[float, ...]]
    weights: dict[str, torch.Tensor]
    sent: dict[str, int]
    acceptance_length: float

    @property
    def trace(self) -> dict[str, list[float]]:
        """As exercise 12.6 has it."""
        return {"loss": self.losses, "norm": self.norms}


def train_on_a_rank(
    mesh: Mesh,
    lesson: Lesson,
    out: str,
    dtype: str = "float32",
    kind: Kind = "zigzag",
    fault: str | None = None,
    stop_after: int = 0,
    checkpoint_every: int | None = None,
) -> Trained:
    """The whole training, or its first `stop_after` steps as if killed then; goes on from a checkpoint in `out`.

    Ranks share `out`; what a fault is called, `planted_shared.SUMS` says.
    """
    precision = getattr(torch, dtype)
    draft = lesson.draft(precision)
    told: list[Report] = []

    def hear(report: Report) -> None:
        told.append(report)
        if report.counters.step == stop_after:
            raise Stopped

    work: Callable[..., object] = faulty_train(fault) if fault else train
    best = 0.0
    try:
        counters = work(
            draft,
            lesson.vocabulary,
            SimpleNamespace(name=lesson.target, model=SimpleNamespace(head=Head(lesson.head_VE.to(precision)))),
            Kept(lesson, precision),
            lesson.training,
            lesson.held_out,
            lesson.recipe,
            Path(out),
            identity={"lesson": lesson.target, "dtype": dtype},
            told=hear,
            checkpoint_every=checkpoint_every,
            mesh=mesh,
            layout=kind,
        )
        best = counters.best
    except Stopped:
        pass
    return Trained(
        [report.loss for report in told],
        [report.gradient_norm for report in told],
        [report.per_depth_accuracy for report in told],
        {name: parameter.detach().clone() for name, parameter in draft.named_parameters()},
        mesh.bytes_sent,
        best,
    )


def train_lesson(
    lesson: Lesson,
    out: Path,
    *,
    ring: int = 1,
    ulysses: int = 1,
    real: bool = False,
    timeout: float = 120.0,
    **how: object,
) -> list[Trained]:
    """Every rank's, on logical ranks or on processes of this machine."""
    names = ("dtype", "kind", "fault", "stop_after", "checkpoint_every")
    if unknown := set(how) - set(names):
        raise ValueError(f"unknown setting {sorted(unknown)[0]!r}; right is one of {', '.join(names)}")
    given = {"dtype": "float32", "kind": "zigzag", "fault": None, "stop_after": 0, "checkpoint_every": None} | how
    run = launch.run if real else logical.run
    return run(
        train_on_a_rank, lesson, str(out), *(given[name] for name in names),
        ring=ring, ulysses=ulysses, timeout_seconds=timeout,
    )  # fmt: skip


def shorter(lesson: Lesson, steps: int) -> Lesson:
    """The same training of fewer steps, with a schedule and a last look of its own."""
    return replace(lesson, recipe=replace(lesson.recipe, steps=steps, evaluate_every=steps))


def apart(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Relative differences, step by step."""
    return [abs(a - b) / abs(b) for a, b in zip(one, other, strict=True)]


def guesses_by_rank(lesson: Lesson, ring: int, ulysses: int, kind: Kind, rows: int) -> list[list[int]]:
    """For each of the first rows, how many guesses of step 0 every rank has."""
    found = []
    for number in range(rows):
        row = lesson.row(number)
        layout = Layout(row.tokens_1L.shape[1], ring, ulysses, kind)
        places = row.places(0)
        counts = [int(torch.isin(layout.positions(r, u), places).sum()) for r in range(ring) for u in range(ulysses)]
        found.append(counts)
    return found


def first_step_sums(lesson: Lesson, ring: int, kind: Kind, number: int = 0) -> tuple[list[float], list[int]]:
    """(sums of a row's losses in step 0, numbers of guesses) by rank: what exercise 12.5 is given."""
    row, draft = lesson.row(number), lesson.draft(torch.float64)
    head, source = Head(lesson.head_VE.double()), Kept(lesson, torch.float64)

    def one(mesh: Mesh) -> tuple[float, int]:
        part = Part.of(row, mesh, lesson.recipe.ttt, kind)
        [states] = part.states(source)
        teacher = Teacher.of(row, states.last_TE, head, lesson.vocabulary, part=part)
        with torch.no_grad():
            step = next(iter(ttt_steps(draft, row, states.features_TF[None], lesson.recipe, 1, part=part)))
            at_P, counts_P = part.judged(0)
            nats_P, _ = entropy(draft, 0, step.output_BLH[0, at_P], teacher.p_PN)
        return float((nats_P * counts_P).sum()), int(counts_P.sum())

    found = logical.run(one, ring=ring)
    return [nats for nats, _ in found], [count for _, count in found]
