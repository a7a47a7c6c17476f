"""What a right trainer has, and what each planted fault of a trainer lacks. Tiny random drafts, float32."""

from __future__ import annotations

import pytest
import torch

from labsim.checkpoints.trainer_faults import NAMES, planted_loss, pre_norm
from labsim.drafts.eagle import EagleDraft
from labsim.drafts.eagle_config import EagleConfig
from labsim.drafts.vocabulary import DraftVocabulary
from labsim.features.source import TargetStates
from labsim.models.linear import Linear
from labsim.train.ttt.data import Document, PackedRow
from labsim.train.ttt.loss import Teacher
from labsim.train.ttt.recipe import TTTRecipe

VOCAB, SIZE, STEPS = 23, 12, 3
IDS = list(range(0, VOCAB, 2))
RECIPE = TTTRecipe(draft="eagle3.1", ttt=STEPS, bf16=False, draft_vocab_size=len(IDS))
VOCABULARY = DraftVocabulary.of(IDS, VOCAB)


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


HEAD = Linear(drawn(VOCAB, SIZE, seed=1))
NORM = 1 + 0.3 * drawn(SIZE, seed=2)


def draft() -> EagleDraft:
    config = EagleConfig(
        vocab_size=VOCAB, draft_vocab_size=len(IDS), hidden_size=SIZE, target_hidden_size=SIZE, intermediate_size=16,
        num_heads=2, num_kv_heads=1, head_dim=6, feature_layers=(2, 4, 5), fc_norm=True, norm_output=True,
    )  # fmt: skip
    made = EagleDraft(config, drawn(VOCAB, SIZE, seed=3)).initialise(0)
    with torch.no_grad():
        for index, parameter in enumerate(made.parameters()):
            noise = drawn(*parameter.shape, seed=10 + index)
            parameter.copy_(noise * 0.4 if parameter.ndim == 2 else 1 + 0.3 * noise)
    return made


def document(prompt: int, answer: int) -> Document:
    tokens = torch.randint(VOCAB, (prompt + answer,), generator=torch.Generator().manual_seed(5)).tolist()
    return Document(("a", 0), "chat", tuple(tokens), prompt, True)


def states(length: int, seed: int = 6) -> TargetStates:
    return TargetStates(drawn(length, 3 * SIZE, seed=seed), drawn(length, SIZE, seed=seed + 1))


def loss_of(name: str | None, one: Document, read: TargetStates, made: EagleDraft | None = None) -> torch.Tensor:
    row = PackedRow.of([one])
    return planted_loss(name, made or draft(), row, [read], HEAD, NORM, VOCABULARY, RECIPE).detach()


def test_the_gradient_does_not_depend_on_the_prompts_length() -> None:
    """The same document in a row of its own, and with a second one behind it whose answer is too short to train."""
    one, read = document(4, 8), states(12)
    beside, more = Document(("b", 0), "chat", (1,) * 30, 29, True), states(30, seed=40)

    def gradient(name: str | None, documents: list[Document], read_all: list[TargetStates]) -> torch.Tensor:
        made = draft()
        planted_loss(name, made, PackedRow.of(documents), read_all, HEAD, NORM, VOCABULARY, RECIPE).backward()
        return made.fc.weight.grad

    for name, same in ((None, True), ("loss-mean-diluted", False)):
        alone, packed = gradient(name, [one], [read]), gradient(name, [one, beside], [read, more])
        ratio = float(packed.norm() / alone.norm())
        assert (abs(ratio - 1) < 1e-5) is same, (name, ratio)
        if not same:
            assert ratio == pytest.approx(12 / 42, rel=1e-5), "diluted by all positions"


def test_the_first_guess_of_an_answer_trains() -> None:
    """It is made from the state of the prompt's last token: the loss must depend on it, at depth 1."""
    one, read = document(4, 8), states(12)
    recipe_of_one_step = TTTRecipe(draft="eagle3.1", ttt=1, bf16=False, draft_vocab_size=len(IDS))

    def moved(name: str | None) -> bool:
        features = read.features_TF.clone().requires_grad_()
        row = PackedRow.of([one])
        made = draft()
        # Its own key must not carry the gradient: attention is switched off.
        with torch.no_grad():
            made.midlayer.self_attn.o_proj.weight.zero_()
        given = [TargetStates(features, read.last_TE)]
        planted_loss(name, made, row, given, HEAD, NORM, VOCABULARY, recipe_of_one_step).backward()
        return bool(features.grad[one.answer_start - 1].abs().sum() > 0)

    assert moved(None)
    assert not moved("mask-of-x-t")


def test_a_state_knows_nothing_of_later_tokens() -> None:
    """Position t may be given the target's state at t, which no later text can change."""
    one, read = document(4, 8), states(12)
    other = TargetStates(read.features_TF.clone(), read.last_TE)
    other.features_TF[-2:] += 1  # states that only guesses past the end could use
    assert float(loss_of(None, one, read)) == float(loss_of(None, one, other))
    name = "features-one-late"
    assert float(loss_of(name, one, read)) != float(loss_of(name, one, other))


def test_under_norm_output_the_normed_state_enters_the_next_step() -> None:
    made = draft()
    tokens, features = torch.tensor([document(4, 8).tokens]), states(12).features_TF[None]
    for variant, right in ((made, True), (pre_norm(made), False)):
        entered: list[torch.Tensor] = []
        hook = made.midlayer.hidden_norm.register_forward_pre_hook(
            lambda module, given, into=entered: into.append(given[0])
        )
        steps = list(variant.ttt_forward(tokens, features, STEPS))
        hook.remove()
        for step, state in zip(steps, entered[1:], strict=False):
            assert torch.equal(state, step.output_BLH) is right, "what the head reads is what is fed back"
    losses = [float(loss_of(name, document(4, 8), states(12))) for name in (None, "pre-norm-feedback")]
    assert losses[0] != losses[1]
    # At depth 1 the two are one: nothing that looks at the first step finds it.
    first = [next(iter(one.ttt_forward(tokens, features, 1))).output_BLH for one in (made, pre_norm(made))]
    assert torch.equal(*first)
    assert pre_norm(made).state_dict().keys() == made.state_dict().keys() and pre_norm(made).config.norm_output


def test_the_teacher_says_what_the_target_says() -> None:
    """The loss of step 1, by hand in float64, from the last *normed* state: neither normed again nor left out."""
    one, read = document(4, 8), states(12)
    made, row = draft(), PackedRow.of([one])
    recipe = TTTRecipe(draft="eagle3.1", ttt=1, bf16=False, draft_vocab_size=len(IDS))
    step = next(iter(made.ttt_forward(row.tokens_1L, read.features_TF[None], 1)))
    total, count = 0.0, 0
    for t in range(one.answer_start - 1, len(one.tokens) - 2):
        p = (read.last_TE[t + 1].double() @ drawn(VOCAB, SIZE, seed=1).double().T)[IDS].softmax(-1)
        total -= float((p * made.logits(step.output_BLH[0, t]).double().log_softmax(-1)).sum())
        count += 1
    losses = {
        name: float(planted_loss(name, made, row, [read], HEAD, NORM, VOCABULARY, recipe).detach())
        for name in (None, "teacher-norm-twice")
    }
    assert losses[None] == pytest.approx(total / count, rel=1e-5)
    assert losses["teacher-norm-twice"] != pytest.approx(total / count, rel=1e-3)
    assert Teacher.of(row, read.last_TE, HEAD, VOCABULARY).choice_P.shape == (7,)


def test_an_unknown_name_is_refused() -> None:
    assert len(NAMES) >= 4
    with pytest.raises(ValueError, match="trainer fault 'x' is not known: loss-mean-diluted"):
        loss_of("x", document(4, 8), states(12))
