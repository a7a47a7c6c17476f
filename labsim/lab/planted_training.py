"""The symptoms of faulty losses in notebook 07: one backward pass over one row, before anything is trained.

The faults are those of `labsim.checkpoints.trainer_faults`. A checkpoint that came of one has nothing wrong in its
files, so the curves are of gradients: how large over all weights, and at which places of the row.

Shapes: L positions of the row, H the draft's width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from ..checkpoints.trainer_faults import planted_loss
from ..drafts.eagle_checkpoint import LoadedDraft
from ..features.source import Online, TargetStates
from ..models.load import Target
from ..models.paths import data_directory
from ..train.ttt.data import Document, PackedRow
from ..train.ttt.recipe import TTTRecipe
from .exercises.drift_by_hand import TRAINING_CURVES
from .planted_curves import HEALTHY
from .ttt_lab import open_draft

KIND = "eagle3.1"
STEPS = 3


@dataclass(frozen=True)
class Backward:
    """One row's loss and its gradient.

    Attributes:
        length: tokens of the row, `prompts` of them in prompts.
        answer_start: where the first document's answer begins.
        loss: nats.
        norm: of the gradient over all weights, as a trainer logs it.
        guess_L: norm of the loss's gradient with respect to what depth 1 puts out at each position of the first
            document. The deeper guesses of an EAGLE-3.1 chain start from it too: where it is 0, no depth of that chain
            trains.
    """

    length: int
    prompts: int
    answer_start: int
    loss: float
    norm: float
    guess_L: tuple[float, ...]

    def guesses(self, offsets: Sequence[int]) -> list[float]:
        """`guess_L` at places counted from the answer's first token; -1 is the prompt's last."""
        return [self.guess_L[self.answer_start + offset] for offset in offsets]


def prompt_alone(document: Document) -> Document:
    """A conversation whose answer was cut off: nothing of it counts."""
    return replace(document, tokens=document.tokens[: document.answer_start])


def backward(
    name: str | None, loaded: LoadedDraft, target: Target, documents: Sequence[Document], states: Sequence[TargetStates]
) -> Backward:
    """Loss and gradient of a row, with a trainer's fault; None is the right loss."""
    outputs: list[torch.Tensor] = []
    hook = loaded.draft.norm.register_forward_hook(lambda module, given, output: outputs.append(output))
    recipe = TTTRecipe(draft=KIND, ttt=STEPS, bf16=False)
    row = PackedRow.of(documents)
    try:
        loss = planted_loss(
            name, loaded.draft, row, states, target.model.head, target.model.norm, loaded.vocabulary, recipe
        )
    finally:
        hook.remove()
    *by_weight, guess_1LH = torch.autograd.grad(loss, [*loaded.draft.parameters(), outputs[0]])
    norm = torch.stack([gradient.norm() for gradient in by_weight]).norm()
    first, length, prompts = documents[0], sum(row.lengths), int((~row.answer_L).sum())
    guess_L = guess_1LH[0, : len(first.tokens)].norm(dim=-1)
    return Backward(length, prompts, first.answer_start, loss.item(), norm.item(), tuple(guess_L.tolist()))


def planted_backwards(
    target: Target, texts: Sequence[Document], beside: Sequence[int], faults: Mapping[str, str] = TRAINING_CURVES
) -> dict[str, list[Backward]]:
    """By letter, the right loss first: one answer in rows with so many prompts of other conversations beside it.

    Attention stays within each conversation, so the answer's guesses are the same in every row. The answer is that of
    the text with the shortest prompt, the next shorter ones stand beside it. ValueError for more than there are.
    """
    if max(beside) >= len(texts):
        raise ValueError(f"{max(beside)} prompts beside the answer take {max(beside) + 1} texts; given {len(texts)}")
    loaded = open_draft(data_directory() / "drafts" / f"{target.name}-{KIND}", target)
    answer, *others = sorted(texts, key=lambda one: one.answer_start)
    row = [answer, *map(prompt_alone, others[: max(beside)])]
    states = Online(target.model, loaded.draft.config.feature_layers).read([one.tokens for one in row])
    return {
        letter: [backward(name, loaded, target, row[: 1 + count], states[: 1 + count]) for count in beside]
        for letter, name in {HEALTHY: None, **faults}.items()
    }
