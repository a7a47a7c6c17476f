"""The stepper: a real answer, one propose, verify, accept at a time.

A run is a finished decode, described token by token. Every step has three positions on the page:

    propose   the draft's guesses, with the draft's probability q
    verify    one target forward over all of them, with the target's probability p
    accept    what was kept, what was rejected, and the token of the target's own

`stepper.js` draws the position from the widget's own state, so stepping needs no kernel and no network. In Python
`stepper.position` and `stepper.run` may be read and set, and `stepper.text` is the sentence on the page.
`labsim.lab.explorers.stepper` makes runs out of real decodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import anywidget
import traitlets

from .style import widget_css

PHASES = ("propose", "verify", "accept")
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class DraftedToken:
    """One guess.

    Attributes:
        text: the token as shown.
        p: the target's probability of it, given the draft before it.
        q: the draft's; 1 for a token chosen without chance.
        fate: what became of it; `unused` tokens stand behind a rejected one and are never judged.
        choice: the target's most likely token in its place.
    """

    text: str
    p: float
    q: float
    fate: Literal["accepted", "rejected", "unused"]
    choice: str


@dataclass(frozen=True)
class StepView:
    """One step. `own` is the target's token (None when an accepted stop token ended the answer), `own_p` its
    probability in the distribution after the accepted tokens, `kind` how it came about.
    """

    draft: tuple[DraftedToken, ...]
    own: str | None
    own_p: float
    kind: Literal["bonus", "corrected", "stop"]

    @property
    def accepted(self) -> int:
        """Number of accepted tokens."""
        return sum(token.fate == "accepted" for token in self.draft)

    @property
    def emitted(self) -> int:
        """Tokens that this step adds to the answer."""
        return self.accepted + (self.own is not None)


@dataclass(frozen=True)
class RunView:
    """One answer. `prompt` is what the reader is shown of the question, `first` the token that the prompt's own forward
    gave. `greedy` says which rule judged.
    """

    name: str
    prompt: str
    first: str
    greedy: bool
    steps: tuple[StepView, ...]

    @property
    def positions(self) -> int:
        """Number of positions: the start, and three per step."""
        return 1 + len(PHASES) * len(self.steps)


class Stepper(anywidget.AnyWidget):
    """The widget. `runs` to choose from; `run` and `position` say what is shown."""

    _esm = _HERE / "stepper.js"
    _css = widget_css("stepper")

    title = traitlets.Unicode().tag(sync=True)
    data = traitlets.List(help="the runs as plain values").tag(sync=True)
    run = traitlets.Int(0, help="which run is shown").tag(sync=True)
    position = traitlets.Int(0, help="which position of it").tag(sync=True)

    def __init__(
        self, runs: Sequence[RunView], title: str = "Step through an answer", run: int = 0, position: int = 0
    ) -> None:
        if not runs:
            raise ValueError("runs is empty; allowed: at least one run")
        self._runs = tuple(runs)
        super().__init__(title=title, data=[plain(one) for one in runs], run=run, position=position)

    @property
    def runs(self) -> tuple[RunView, ...]:
        """What can be shown."""
        return self._runs

    @property
    def text(self) -> str:
        """The sentence on the page."""
        return sentence(self._runs[self.run], self.position)

    @traitlets.validate("run")
    def _known(self, proposal: Mapping[str, Any]) -> int:
        wanted = proposal["value"]
        if not 0 <= wanted < len(self._runs):
            raise ValueError(f"run is {wanted}; allowed: 0 to {len(self._runs) - 1}")
        return wanted

    @traitlets.validate("position")
    def _inside(self, proposal: Mapping[str, Any]) -> int:
        wanted, last = proposal["value"], self._runs[self.run].positions - 1
        if not 0 <= wanted <= last:
            raise ValueError(f"position is {wanted}; allowed: 0 to {last}")
        return wanted

    @traitlets.observe("run")
    def _run_changed(self, change: Mapping[str, Any]) -> None:
        self.position = min(self.position, self._runs[self.run].positions - 1)


def plain(run: RunView) -> dict[str, Any]:
    """The run as JSON-ready values, with the sentence of every position."""
    steps = []
    for step in run.steps:
        steps.append({**asdict(step), "draft": [asdict(token) for token in step.draft]})
        for token in steps[-1]["draft"]:
            token["p"], token["q"] = round(token["p"], 4), round(token["q"], 4)
        steps[-1]["own_p"] = round(step.own_p, 4)
    return {
        "name": run.name,
        "prompt": run.prompt,
        "first": run.first,
        "greedy": run.greedy,
        "steps": steps,
        "texts": [sentence(run, position) for position in range(run.positions)],
    }


def sentence(run: RunView, position: int) -> str:
    """What happens at a position, in words; it also serves those who do not see the picture."""
    if position == 0:
        return f"Start: the forward over the prompt gives the first token, {quoted(run.first)}."
    number, phase = divmod(position - 1, len(PHASES))
    step = run.steps[number]
    what = (_proposed, _verified, _accepted)[phase](step, run.greedy)
    return f"Step {number + 1} of {len(run.steps)}, {PHASES[phase]}: {what}"


def quoted(text: str) -> str:
    """A token between quotation marks, its line breaks visible."""
    return '"' + text.replace("\n", "↵") + '"'


def _proposed(step: StepView, greedy: bool) -> str:
    if not step.draft:
        return "the draft has no guess, so this is a plain step."
    return f"the draft guesses {', '.join(quoted(token.text) for token in step.draft)}."


def _verified(step: StepView, greedy: bool) -> str:
    rows = 1 + len(step.draft)
    said = f"one target forward over {rows} token{'s' * (rows > 1)} gives what follows each of them."
    if not step.draft:
        return said
    if greedy:
        return f"{said} The target itself would say {', '.join(quoted(token.choice) for token in step.draft)}."
    chances = ", ".join(f"{min(1.0, token.p / token.q):.2f}" for token in step.draft)
    return f"{said} Chances to be kept, min(1, p/q): {chances}."


def _accepted(step: StepView, greedy: bool) -> str:
    total = f"{step.emitted} token{'s' * (step.emitted != 1)} from this forward."
    if step.kind == "stop":
        return f"{step.accepted} of {len(step.draft)} kept, and the last one ends the answer. {total}"
    if not step.draft:
        return f"the target's own token is {quoted(step.own or '')}. {total}"
    if step.kind == "bonus":
        kept = f"all {len(step.draft)} kept" if len(step.draft) > 1 else "the guess is kept"
        return f"{kept}; {quoted(step.own or '')} is the bonus, from the last row. {total}"
    rejected = step.draft[step.accepted]
    source = "the target's choice" if greedy else "a draw from the residual"
    return (
        f"{step.accepted} of {len(step.draft)} kept, {quoted(rejected.text)} rejected; in its place "
        f"{quoted(step.own or '')}, {source}, from the same forward. {total}"
    )
