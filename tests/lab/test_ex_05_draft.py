"""What notebook 05 trains and probes, on a tiny random target: against the trainer's own parts and real decoding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labsim.decode.generate import generate
from labsim.drafts.shape import Chain, DynamicTree
from labsim.features.source import Online
from labsim.lab.layer_probes import fit, gather, probe, unit
from labsim.lab.page_data import PageData, as_answers, cut, own_share
from labsim.lab.page_draft import (
    Late,
    SharedStates,
    gain_range,
    length_range,
    pooled,
    steps_of,
    survival_of,
    train_on_page,
)
from labsim.lab.planted_drafts import BUGS, spoilt, taken_for_ids
from labsim.models.sampling import Sampling
from labsim.train.ttt.data import Document
from labsim.train.ttt.estimate import Estimate
from labsim.train.ttt.recipe import TTTRecipe
from tests.lab.tiny_target import tiny_target

LAYERS = (0, 1, 2)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return tiny_target(tmp_path_factory.mktemp("page") / "target")


@pytest.fixture(scope="module")
def data(target) -> PageData:
    """Greedy answers of the tiny target to short prompts."""
    texts = []
    for number in range(14):
        prompt = [(7 * number + 3 * i) % 256 for i in range(4)]
        tokens = generate(target, prompt, max_new_tokens=14).tokens
        texts.append(Document((f"p{number}", 0), "chat", (*prompt, *tokens), len(prompt), True))
    return PageData(tuple(texts[:8]), tuple(texts[8:10]), tuple(texts[10:]))


@pytest.fixture(scope="module")
def page(target, data):
    recipe = TTTRecipe(
        draft="eagle3", ttt=2, steps=12, seq=40, feature_layers=LAYERS, draft_vocab_size=128, k=3, bf16=False,
        evaluate_every=6, learning_rate=3e-3,
    )  # fmt: skip
    return train_on_page("tiny", recipe, target, data, SharedStates(target, (*LAYERS, 2)), tell=False)


def test_own_answers_are_recognised_and_others_are_not(target, data) -> None:
    assert own_share(target, data.training) == 1.0
    other = replace(data.training[0], tokens=tuple((token + 1) % 256 for token in data.training[0].tokens))
    assert own_share(target, [other]) < 0.5


def test_answers_and_documents_hold_the_same_texts(data) -> None:
    for answer, document in zip(as_answers(data.training), data.training, strict=True):
        assert (*answer.prompt_ids, *answer.answer_ids) == document.tokens
        assert len(answer.prompt_ids) == document.answer_start and answer.finish == "length"


def test_a_cut_answer_is_the_beginning_of_the_whole_one(data) -> None:
    whole = replace(data.training[0], stopped=True)
    short = cut(whole, 5)
    assert short.answer_tokens == 5 and short.tokens == whole.tokens[: whole.answer_start + 5]
    assert not short.stopped, "its last token is not the one that ended the answer"
    assert cut(whole, whole.answer_tokens) is whole


@pytest.mark.parametrize("layers", [(0, 1, 2), (2, 2, 2), (2, 0, 1)])
def test_shared_states_are_those_of_the_target_in_the_loop(target, data, layers) -> None:
    texts = [one.tokens for one in data.training[:3]]
    shared = SharedStates(target, (0, 1, 2)).reading(layers)
    for ours, theirs in zip(shared.read(texts), Online(target.model, layers).read(texts), strict=True):
        assert torch.allclose(ours.features_TF, theirs.features_TF)
        assert torch.allclose(ours.last_TE, theirs.last_TE)


def test_states_are_computed_once(target, data) -> None:
    shared = SharedStates(target, (1, 2))
    shared.reading((1,)).read([data.training[0].tokens])
    shared.online = None
    shared.reading((2, 1)).read([data.training[0].tokens])
    with pytest.raises(ValueError, match="layer 0 is not kept; shared are 1, 2"):
        shared.reading((0,))


def test_late_states_belong_to_the_next_position(target, data) -> None:
    source = Online(target.model, LAYERS)
    [right], [late] = (one.read([data.training[0].tokens]) for one in (source, Late(source)))
    assert torch.equal(late.features_TF[:-1], right.features_TF[1:])
    assert torch.equal(late.last_TE, right.last_TE)


def test_the_curve_has_a_point_per_step_and_the_loss_falls(page) -> None:
    assert len(page.curve) == 12 and [step for step, _ in page.looks] == [6, 12]
    assert page.smooth()[-1] < page.smooth()[0]
    assert page.smooth()[0] == page.curve[0].loss
    two = 0.5 ** (1 / 8)
    want = (two * page.curve[0].loss + page.curve[1].loss) / (two + 1)
    assert page.smooth()[1] == pytest.approx(want)


def test_the_training_repeats_itself(page, target, data) -> None:
    again = train_on_page("again", page.recipe, target, data, SharedStates(target, LAYERS), tell=False)
    assert [one.loss for one in again.curve] == [one.loss for one in page.curve]


def test_the_walk_over_finished_answers_is_real_decoding(page, target, data) -> None:
    for document, walked in zip(data.measuring, page.measure(target, data.measuring, 3), strict=True):
        answer = generate(
            target,
            document.tokens[: document.answer_start],
            drafter=page.drafter(target),
            shape=Chain(3),
            max_new_tokens=document.answer_tokens,
        )
        assert answer.tokens == document.tokens[document.answer_start :]
        assert (walked.accepted, walked.steps) == (answer.accepted, len(answer.steps))


@pytest.mark.parametrize("bug", BUGS[:2] + BUGS[3:])
def test_a_spoilt_draft_guesses_otherwise_and_changes_no_text(page, target, data, bug) -> None:
    prompts = [list(one.tokens[: one.answer_start]) for one in data.measuring]
    options = {"shape": Chain(3), "max_new_tokens": 10}
    right = [generate(target, ids, drafter=page.drafter(target), **options) for ids in prompts]
    wrong = [generate(target, ids, drafter=spoilt(page, target, bug), **options) for ids in prompts]
    assert [one.tokens for one in right] == [one.tokens for one in wrong]
    drafts = [[step.tokens for one in answers for step in one.steps] for answers in (right, wrong)]
    if bug != BUGS[4]:  # that one needs a right guess first; see below
        assert drafts[0] != drafts[1]


def test_a_kept_branch_is_what_the_draft_ran_and_a_rerun_is_not(page, target, data) -> None:
    """After a right guess the entries of the two caches agree up to it, differ at it, and the text is the same."""
    text = data.measuring[0].tokens
    right, kept = page.drafter(target), spoilt(page, target, BUGS[4])
    [states] = page.source.read([text])
    layers = right.hidden_layers
    per_layer = dict(zip(layers, states.features_TF.split(target.model.config.hidden_size, dim=-1), strict=True))
    start, found = len(text) - 6, []
    for drafter in (right, kept):
        drafter.start(1, len(text) + 8)
        drafter.observe([{layer: one[:start] for layer, one in per_layer.items()}])
        [draft] = drafter.propose([text[: start + 1]], Chain(3), Sampling(), [torch.Generator()])
        accepted = [*text[: start + 1], *draft.tokens[:2], 7]
        drafter.observe([{layer: one[start : start + 3] for layer, one in per_layer.items()}])
        drafter.propose([accepted], Chain(3), Sampling(), [torch.Generator()])
        assert drafter.cache.lengths == [start + 3]
        found.append(drafter.cache.kv[0, :, 0, :, : start + 3])
    same = (found[0] - found[1]).abs().amax(dim=(0, 1, 3)) < 1e-5
    assert same[:start].all() and not same[start : start + 2].any()
    with pytest.raises(ValueError, match="chains only"):
        kept.propose([accepted], DynamicTree(depth=2, top_k=2, nodes=4), Sampling(), [torch.Generator()])


def test_layers_one_off_name_the_neighbours(page, target) -> None:
    shifted = replace(page, draft=page.draft)
    shifted.draft.config = replace(page.draft.config, feature_layers=(1, 2, 2))
    try:
        assert spoilt(shifted, target, "feature layers one off").hidden_layers == (0, 1, 1)
    finally:
        page.draft.config = replace(page.draft.config, feature_layers=LAYERS)


def test_spoiling_leaves_the_draft_itself_alone(page, target) -> None:
    before = page.draft.midlayer.self_attn.q_proj.weight.clone()
    spoilt(page, target, BUGS[0])
    assert torch.equal(before, page.draft.midlayer.self_attn.q_proj.weight)
    with pytest.raises(ValueError, match="bug is 'no such'; allowed: state first"):
        spoilt(page, target, "no such")


def test_offsets_taken_for_ids() -> None:
    from labsim.drafts.vocabulary import DraftVocabulary

    assert taken_for_ids(DraftVocabulary.of([2, 5, 6], 8)).ids_N.tolist() == [2, 4, 4]


def test_pooled_figures_by_hand() -> None:
    first = Estimate(1, 4, 6, (1.0, 0.5), (1.0, 0.5))
    second = Estimate(1, 6, 2, (1 / 3, 0.0), (0.4, 0.1))
    assert pooled([first, second]) == pytest.approx(1 + 8 / 10)
    assert survival_of([first, second]) == pytest.approx([0.6, 0.2])


def test_intervals_hold_the_pooled_length_and_pairs_are_paired() -> None:
    many = [Estimate(1, 10, 5 + i % 7, (0.5,), (0.5,)) for i in range(40)]
    better = [replace(one, accepted=one.accepted + 1) for one in many]
    low, high = length_range(many)
    assert low < pooled(many) < high
    gain = gain_range(better, many)
    assert gain.low == pytest.approx(0.1) and gain.high == pytest.approx(0.1)
    with pytest.raises(ValueError, match="39 and 40 documents"):
        gain_range(better[:-1], many)


def test_steps_cover_the_texts_so_many_times(data) -> None:
    assert steps_of(data, 18, 1, 0) == len(data.training)
    assert steps_of(data, 40, 3, 0) == 3 * len(data.training) // 2


def test_the_last_layer_gives_the_next_token_and_knowing_it_helps(target, data) -> None:
    documents = [*data.training, *data.choosing]
    training, held_out = gather(target, documents, (0, 2)), gather(target, data.measuring, (0, 2))
    # The states of the two ends in one ridge regression: the last one is its own image, up to its size.
    assert probe(target, training, training, [2], "next").accuracy > 0.9
    assert len(held_out) == sum(one.answer_tokens - 1 for one in data.measuring)
    with pytest.raises(ValueError, match="job is 'before'"):
        probe(target, training, held_out, [2], "before")


def test_places_stand_where_the_tokens_say(target, data) -> None:
    document = data.training[0]
    found = gather(target, [document], (1,))
    [states] = Online(target.model, (1,)).read([document.tokens])
    t = document.answer_start - 1
    assert torch.allclose(found.states[1][0], unit(states.features_TF[t : t + 1])[0])
    assert int(found.next_P[0]) == document.tokens[t + 1] and int(found.next_but_one_P[0]) == document.tokens[t + 2]
    assert torch.equal(found.last_PE[1], found.after_PE[0])
    assert torch.allclose(found.embedding_PE[0], unit(target.model.embedding_VE[document.tokens[t + 1]][None])[0])


def test_ridge_finds_a_linear_map() -> None:
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(400, 5, generator=generator).double(), torch.randn(5, 3, generator=generator)
    # The penalty shrinks by about RIDGE.
    assert torch.allclose(fit(x, (x @ w.double()).float()), w.double(), rtol=0.05, atol=0.02)
