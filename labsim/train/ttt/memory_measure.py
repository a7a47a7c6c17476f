"""A training step, really run, with its bytes counted: what `memory_peak.peak` says is held against this.

A case is a draft with everything that one step of the trainer reads: a row, the target's states, the target's head. It
is random for any shape, or made of a real target (`real_case`). `measure` runs the step of `loop.train`: teacher, loss,
backward and, if asked, clipping and the optimiser; it counts live tensor storages on a CPU and the allocator's own
statistics on CUDA, never resident memory.

`measure` tells activations from parameters: `saved` is what is alive between forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ...drafts.eagle import EagleDraft
from ...drafts.eagle_checkpoint import TrainedDraft
from ...drafts.eagle_config import EagleConfig
from ...drafts.heads import HeadsConfig, ParallelHeads
from ...drafts.mtp import MTPConfig, MTPDraft
from ...drafts.recurrent import BranchAttention
from ...drafts.vocabulary import DraftVocabulary
from ...features.source import Online, TargetStates
from ...models.config import ModelConfig
from ...models.linear import Linear
from ...models.live_bytes import LiveBytes
from ...models.load import Target
from .build import build
from .data import Document, PackedRow
from .loop import build_optimizers
from .loss import Teacher, draft_device, row_loss
from .memory import DraftShape, StepSetting
from .recipe import TTTRecipe


@dataclass(frozen=True)
class Measured:
    """Bytes above what was there before the step: at its worst moment, and between forward and backward."""

    peak: int
    saved: int


@dataclass(frozen=True)
class StepCase:
    """What one step reads."""

    draft: TrainedDraft
    vocabulary: DraftVocabulary
    head: Linear
    row: PackedRow
    states: Sequence[TargetStates]
    recipe: TTTRecipe

    @property
    def shape(self) -> DraftShape:
        return DraftShape.of(self.draft.config)

    def setting(self, attention: str = "fused", state_bytes: int | None = None) -> StepSetting:
        """The formula's description of this very step."""
        device = draft_device(self.draft).type
        return StepSetting(
            positions=self.row.tokens_1L.shape[1],
            places=len(self.row.teacher_places()),
            ttt=self.recipe.ttt,
            bf16=self.recipe.bf16,
            attention=attention,
            checkpointing=self.recipe.checkpointing,
            logit_chunk=self.recipe.logit_chunk,
            optimizer=self.recipe.optimizer,
            state_bytes=state_bytes or self.states[0].last_TE.element_size(),
            device="cuda" if device == "cuda" else "cpu",
        )


def measure(case: StepCase, *, attention: BranchAttention | None = None, update: bool = False) -> Measured:
    """Run the step. `update` clips and steps the optimiser too, whose moments an uncounted first step has made.

    The gradients are given back; without `update` the draft is as it was.
    """
    optimizers = build_optimizers(case.draft, case.recipe) if update else []
    device = draft_device(case.draft)

    def step(between: Callable[[], None]) -> None:
        last_LE = torch.cat([part.last_TE for part in case.states]).to(device)
        keep = not case.recipe.logit_chunk
        teacher = Teacher.of(case.row, last_LE, case.head, case.vocabulary, keep=keep)
        loss, _ = row_loss(case.draft, case.row, case.states, teacher, case.recipe, attention)
        between()
        loss.backward()
        if update:
            torch.nn.utils.clip_grad_norm_(case.draft.parameters(), case.recipe.clip)
            for optimizer in optimizers:
                optimizer.step()

    if update:
        step(lambda: None)
        case.draft.zero_grad(set_to_none=True)
    try:
        return count(step, device)
    finally:
        case.draft.zero_grad(set_to_none=True)


def count(step: Callable[[Callable[[], None]], None], device: torch.device) -> Measured:
    """Bytes of `step`, which calls its argument once between forward and backward."""
    saved = 0
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)

        def between() -> None:
            nonlocal saved
            saved = torch.cuda.memory_allocated(device) - before

        step(between)
        torch.cuda.synchronize(device)
        return Measured(torch.cuda.max_memory_allocated(device) - before, saved)
    with LiveBytes() as counted:

        def between() -> None:
            nonlocal saved
            torch.zeros(())  # the count looks at what has died when an operation runs
            saved = counted.live

        step(between)
    return Measured(counted.peak, saved)


def random_case(shape: DraftShape, setting: StepSetting, *, seed: int = 0, layers: int = 8) -> StepCase:
    """A draft of that shape with random weights, and random states of a target of `layers` layers. On the CPU.

    `places` of the setting counts from the end of the row: what lies before is the prompt.
    """
    draw = torch.Generator().manual_seed(seed)
    recipe = recipe_of(shape.kind, setting, shape.draft_vocab)
    target = ModelConfig(
        model_type="llama",
        vocab_size=shape.vocab,
        hidden_size=shape.target_hidden,
        intermediate_size=max(1, shape.intermediate),
        num_layers=layers,
        num_heads=max(1, shape.heads),
        num_kv_heads=max(1, shape.kv_heads),
        head_dim=max(2, shape.head_dim),
        max_positions=max(setting.positions, 16),
        rms_norm_eps=1e-5,
        tied=True,
    )
    embedding_VH, head_VH = (0.02 * torch.randn(shape.vocab, shape.hidden, generator=draw) for _ in range(2))
    if shape.kind == "heads":
        config = HeadsConfig.beside(target, num_heads=setting.ttt, draft_vocab_size=shape.draft_vocab)
        draft: TrainedDraft = ParallelHeads(config)
    elif shape.kind == "mtp":
        draft = MTPDraft(MTPConfig.mtp(target), embedding_VH, head_VH)
    elif shape.kind == "eagle1":
        draft = EagleDraft(EagleConfig.eagle1(target, fc_bias=False), embedding_VH, head_VH)
    else:
        make = EagleConfig.eagle31 if shape.kind == "eagle3.1" else EagleConfig.eagle3
        draft = EagleDraft(make(target, draft_vocab_size=shape.draft_vocab), embedding_VH)
    draft.initialise(seed)
    length = setting.positions
    # Of a document's last token nobody says what follows.
    start = max(1, length - 1 - (setting.places or length))
    tokens = tuple(torch.randint(shape.vocab, (length,), generator=draw).tolist())
    features_TF, last_TE = (
        torch.randn(length, width, generator=draw) for width in (shape.feature_width, shape.target_hidden)
    )
    return StepCase(
        draft,
        DraftVocabulary.of(torch.arange(shape.rows), shape.vocab),
        Linear(head_VH),
        PackedRow.of([Document(("random", seed), "random", tokens, start, True)]),
        [TargetStates(features_TF, last_TE)],
        recipe,
    )


def real_case(target: Target, recipe: TTTRecipe, positions: int, *, seed: int = 0) -> StepCase:
    """A fresh draft for a real target on one row of random tokens, whose states the target computes here.

    ValueError for more positions than the target's context.
    """
    context = target.model.config.max_positions
    if positions > context:
        raise ValueError(f"a row of {positions} tokens is longer than the context of {target.name}, {context}")
    draw = torch.Generator().manual_seed(seed)
    tokens = tuple(torch.randint(target.model.config.vocab_size, (positions,), generator=draw).tolist())
    document = Document(("random", seed), "random", tokens, 1, True)
    draft, vocabulary = build(recipe, target, [document])
    states = Online(target.model, draft.config.feature_layers).read([tokens])
    return StepCase(draft, vocabulary, target.model.head, PackedRow.of([document]), states, recipe)


def recipe_of(kind: str, setting: StepSetting, draft_vocab: int) -> TTTRecipe:
    """The trainer's recipe of a setting."""
    return TTTRecipe(
        draft=kind,
        ttt=setting.ttt,
        seq=max(8, setting.positions),
        draft_vocab_size=draft_vocab,
        bf16=setting.bf16,
        checkpointing=setting.checkpointing,
        logit_chunk=setting.logit_chunk,
        optimizer=setting.optimizer,
    )
