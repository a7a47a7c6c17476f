"""The stepper says what happened: its sentences by hand, its probabilities against full forwards of another library."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from labsim.decode.generate import generate
from labsim.drafts.ngram import NgramDrafter
from labsim.drafts.shape import Chain
from labsim.lab import stepper as module
from labsim.lab.explorers.stepper import Overheard, opening, step_through, views, watch
from labsim.lab.stepper import DraftedToken, RunView, Stepper, StepView
from labsim.models.load import Target
from labsim.models.sampling import GREEDY, Sampling

from .tiny_target import noisy_drafter, tiny_target

PROMPT = list(range(30, 60)) * 2  # something that an n-gram draft finds again


def guess(text: str, fate: str, p: float = 0.2, q: float = 0.8, choice: str = "c") -> DraftedToken:
    return DraftedToken(text, p, q, fate, choice)


BY_HAND = RunView(
    "by hand",
    "question",
    " a",
    False,
    (
        StepView((guess(" b", "accepted"), guess("\n", "rejected"), guess(" d", "unused")), " e", 0.5, "corrected"),
        StepView((guess(" f", "accepted"),), " g", 0.9, "bonus"),
        StepView((), " h", 0.4, "bonus"),
        StepView((guess("<end>", "accepted"), guess(" x", "unused")), None, 0.0, "stop"),
    ),
)
SENTENCES = {
    0: 'Start: the forward over the prompt gives the first token, " a".',
    1: 'Step 1 of 4, propose: the draft guesses " b", "↵", " d".',
    2: "Step 1 of 4, verify: one target forward over 4 tokens gives what follows each of them. "
    "Chances to be kept, min(1, p/q): 0.25, 0.25, 0.25.",
    3: 'Step 1 of 4, accept: 1 of 3 kept, "↵" rejected; in its place " e", a draw from the residual, '
    "from the same forward. 2 tokens from this forward.",
    6: 'Step 2 of 4, accept: the guess is kept; " g" is the bonus, from the last row. 2 tokens from this forward.',
    7: "Step 3 of 4, propose: the draft has no guess, so this is a plain step.",
    8: "Step 3 of 4, verify: one target forward over 1 token gives what follows each of them.",
    9: 'Step 3 of 4, accept: the target\'s own token is " h". 1 token from this forward.',
    12: "Step 4 of 4, accept: 1 of 2 kept, and the last one ends the answer. 1 token from this forward.",
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiny") / "target"


@pytest.fixture(scope="module")
def target(directory: Path) -> Target:
    return tiny_target(directory)


@pytest.fixture(scope="module")
def reference(target: Target, directory: Path) -> LlamaForCausalLM:
    """The same weights in transformers."""
    return LlamaForCausalLM.from_pretrained(directory, dtype=torch.float64).eval()


@pytest.mark.parametrize("position", SENTENCES)
def test_sentences_by_hand(position: int) -> None:
    widget = Stepper([BY_HAND])
    widget.position = position
    assert widget.text == SENTENCES[position]
    assert widget.data[0]["texts"][position] == SENTENCES[position]


def test_a_greedy_run_names_the_targets_choice() -> None:
    run = RunView("greedy", "", "a", True, BY_HAND.steps[:1])
    widget = Stepper([run])
    widget.position = 2
    assert widget.text.endswith('The target itself would say "c", "c", "c".')
    widget.position = 3
    assert "the target's choice" in widget.text


def test_positions_end_with_the_answer() -> None:
    widget = Stepper([BY_HAND, RunView("short", "", "a", True, BY_HAND.steps[:1])])
    for wrong in (-1, 13):
        with pytest.raises(ValueError, match=rf"position is {wrong}; allowed: 0 to 12"):
            widget.position = wrong
    with pytest.raises(ValueError, match="run is 2; allowed: 0 to 1"):
        widget.run = 2
    widget.position = 12
    widget.run = 1
    assert widget.position == 3, "the shorter run ends there"
    with pytest.raises(ValueError, match="runs is empty"):
        Stepper([])


def test_it_opens_where_a_draft_is_judged() -> None:
    kept, missed = (DraftedToken("x", 0.5, 1.0, fate, "x") for fate in ("accepted", "rejected"))
    nothing = StepView((), "a", 0.5, "corrected")
    wrong, right, both = (
        StepView(draft, "a", 0.5, kind)
        for draft, kind in (((missed,), "corrected"), ((kept,), "bonus"), ((kept, missed), "corrected"))
    )
    runs = {name: RunView(name, "", "a", True, steps) for name, steps in {
        "silent": (nothing, nothing), "wrong": (nothing, wrong), "right": (nothing, right), "both": (right, both),
    }.items()}  # fmt: skip
    assert opening(list(runs.values())) == (3, 1)
    assert opening([runs["silent"], runs["wrong"], runs["right"]]) == (2, 1)
    assert opening([runs["silent"], runs["wrong"]]) == (1, 1)
    assert opening([runs["silent"]]) == (0, 0)
    widget = Stepper([runs["silent"], runs["both"]], run=1, position=6)
    assert (widget.run, widget.position) == (1, 6)


def test_the_state_is_plain_and_whole() -> None:
    """What the browser gets holds everything, and survives JSON."""
    data = Stepper([BY_HAND]).data
    assert json.loads(json.dumps(data)) == data
    (run,) = data
    assert len(run["texts"]) == 13
    assert [step["kind"] for step in run["steps"]] == ["corrected", "bonus", "bonus", "stop"]
    assert run["steps"][0]["draft"][1] == {"text": "\n", "p": 0.2, "q": 0.8, "fate": "rejected", "choice": "c"}


def test_the_script_needs_no_network_and_is_valid() -> None:
    folder = Path(module.__file__).parent
    script, style = (folder / "stepper.js").read_text(), Stepper._css
    assert not re.search(r"\bimport\b(?!s)|fetch\(|https?://|XMLHttpRequest", re.sub(r"//.*", "", script))
    assert "url(" not in style and "@import" not in style
    assert "line-through" not in style, "a struck colon reads as a division sign"
    state = Stepper([BY_HAND]).get_state()
    assert state["_esm"] == script
    assert all(part in state["_css"] for part in (".labsim-stepper", "--labsim-ink:", ".labsim-choose"))
    if node := shutil.which("node"):
        subprocess.run([node, "--check", "--input-type=module"], input=script, text=True, check=True)


@torch.no_grad()
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.8)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("kind", ["ngram", "small"])
def test_probabilities_equal_full_forwards(
    kind: str, sampling: Sampling, target: Target, reference: LlamaForCausalLM, directory: Path
) -> None:
    """p from transformers' forward over the whole text, with the drafted tokens behind it."""
    drafter = Overheard(NgramDrafter() if kind == "ngram" else noisy_drafter(directory))
    result = generate(target, PROMPT, drafter=drafter, shape=Chain(3), max_new_tokens=16, sampling=sampling, seed=4)
    shown = views(target, result, drafter.q, sampling)
    assert len(shown) == len(result.steps) > 3
    temperature = 1.0 if sampling.greedy else sampling.temperature
    text, fates = [*PROMPT, result.tokens[0]], []
    for step, seen in zip(result.steps, shown, strict=True):
        whole = torch.tensor([[*text, *step.tokens]])
        rows = torch.log_softmax(reference(whole).logits[0, len(text) - 1 :] / temperature, -1).exp()
        for i, (token, drafted) in enumerate(zip(step.tokens, seen.draft, strict=True)):
            assert drafted.p == pytest.approx(float(rows[i, token]), abs=1e-5)
            assert drafted.text == target.decode([token], keep_special=True)
            assert drafted.choice == target.decode([int(rows[i].argmax())], keep_special=True)
            fates.append(drafted.fate)
        if step.token is not None:
            assert seen.own_p == pytest.approx(float(rows[len(step.path), step.token]), abs=1e-5)
        assert seen.accepted == len(step.path) and seen.emitted == len(step.emitted)
        text += step.emitted
    assert text == [*PROMPT, *result.tokens]
    assert {"accepted", "rejected"} <= set(fates), "a run in which nothing happens shows nothing"


@torch.no_grad()
def test_q_is_what_the_draft_believed(target: Target, directory: Path) -> None:
    """q of each drawn token from the draft model's own forward over the whole text."""
    drafter = noisy_drafter(directory)
    overheard = Overheard(drafter)
    sampling = Sampling(temperature=0.7)
    result = generate(target, PROMPT, drafter=overheard, shape=Chain(3), max_new_tokens=12, sampling=sampling, seed=1)
    believes = LlamaForCausalLM.from_pretrained(f"{directory}-draft", dtype=torch.float64).eval()
    text = [*PROMPT, result.tokens[0]]
    assert len(overheard.q) == len(result.steps) > 3
    for step, q in zip(result.steps, overheard.q, strict=True):
        rows = torch.softmax(believes(torch.tensor([[*text, *step.tokens]])).logits[0, len(text) - 1 :] / 0.7, -1)
        assert q[: len(step.tokens)] == pytest.approx([float(rows[i, t]) for i, t in enumerate(step.tokens)], abs=1e-5)
        text += step.emitted


def test_the_whole_explorer(target: Target, directory: Path) -> None:
    widget = step_through(
        target, PROMPT, {"n-gram": NgramDrafter(), "small": noisy_drafter(directory)}, max_new_tokens=10
    )
    assert [run.name for run in widget.runs] == [
        "n-gram, greedy", "small, greedy", "n-gram, temperature 0.8", "small, temperature 0.8",
    ]  # fmt: skip
    for run in widget.runs:
        assert 1 + sum(step.emitted for step in run.steps) <= 10
        if run.greedy:
            for step in run.steps:
                kept = [token.text == token.choice for token in step.draft]
                assert all(kept[: step.accepted])
                # Two bytes that are no character look alike.
                assert step.kind != "corrected" or not kept[step.accepted] or step.draft[step.accepted].text == "�"
    shown = widget.runs[widget.run].steps[widget.position // 3 - 1]
    assert widget.position % 3 == 0 and widget.text.startswith(f"Step {widget.position // 3} of")
    assert shown.draft, "it opens on a step that drafts"
    plain = watch(target, PROMPT, NgramDrafter(), name="again", max_new_tokens=10)
    assert plain.steps == widget.runs[0].steps, "watching does not change the answer"
