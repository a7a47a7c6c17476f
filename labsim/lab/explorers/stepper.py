"""Explorer of notebook 03: real answers to step through.

A finished decode knows which tokens were drafted and accepted, not how likely they were. So the drafts are overheard
while the real loop runs, and its verify passes are repeated on a fresh cache to read off the probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ...decode.generate import generate, prefill
from ...decode.result import GenerationResult, Step
from ...decode.verify import verify
from ...drafts.protocol import Draft, Drafter
from ...drafts.shape import Chain, Shape
from ...models.load import Target
from ...models.sampling import GREEDY, Sampling, distribution
from ..stepper import PHASES, DraftedToken, RunView, Stepper, StepView

SHOWN = 280  # characters of the prompt's last turn


def step_through(
    target: Target,
    prompt: Sequence[int],
    drafters: Mapping[str, Drafter],
    *,
    k: int = 4,
    max_new_tokens: int = 40,
    temperature: float = 0.8,
    seed: int = 0,
) -> Stepper:
    """The stepper over one prompt: each drafter greedy, then each at a temperature.

    It opens where there is something to see (`opening`): the first steps of a draft may draft nothing.
    """
    modes = (GREEDY, Sampling(temperature=temperature))
    runs = [
        watch(
            target,
            prompt,
            drafter,
            name=f"{name}, {'greedy' if sampling.greedy else f'temperature {temperature:g}'}",
            k=k,
            max_new_tokens=max_new_tokens,
            sampling=sampling,
            seed=seed,
        )
        for sampling in modes
        for name, drafter in drafters.items()
    ]
    run, step = opening(runs)
    # Position 0 is the prompt's own token; each step has three, and its third shows what was accepted.
    position = min(len(PHASES) * (step + 1), runs[run].positions - 1)
    return Stepper(runs, title=f"Step through an answer of {target.name}", run=run, position=position)


def opening(runs: Sequence[RunView]) -> tuple[int, int]:
    """The run and step to open on: the first that accepts and rejects, else that accepts, else that drafts."""
    for wanted in (
        lambda step: 0 < step.accepted < len(step.draft),
        lambda step: step.accepted > 0,
        lambda step: bool(step.draft),
    ):
        for number, run in enumerate(runs):
            found = next((at for at, step in enumerate(run.steps) if wanted(step)), None)
            if found is not None:
                return number, found
    return 0, 0


def watch(
    target: Target,
    prompt: Sequence[int],
    drafter: Drafter,
    *,
    name: str,
    k: int = 4,
    max_new_tokens: int = 40,
    sampling: Sampling = GREEDY,
    seed: int = 0,
) -> RunView:
    """Decode, and describe every step."""
    overheard = Overheard(drafter)
    result = generate(
        target, prompt, drafter=overheard, shape=Chain(k), max_new_tokens=max_new_tokens, sampling=sampling, seed=seed
    )
    return RunView(
        name, question(target, prompt), text_of(target, result.tokens[0]), sampling.greedy,
        views(target, result, overheard.q, sampling),
    )  # fmt: skip


class Overheard:
    """A drafter that notes the probabilities of what it proposes: one list per step, for the one row there is."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.name, self.hidden_layers = drafter.name, drafter.hidden_layers
        self.q: list[list[float]] = []

    def start(self, batch_size: int, capacity: int) -> None:
        """Begin anew."""
        self.q = []
        self.drafter.start(batch_size, capacity)

    def observe(self, hidden: Sequence[dict[int, torch.Tensor]]) -> None:
        """Hand on."""
        self.drafter.observe(hidden)

    def select(self, rows: Sequence[int]) -> None:
        """Hand on."""
        self.drafter.select(rows)

    def propose(
        self,
        texts: Sequence[Sequence[int]],
        shape: Shape,
        sampling: Sampling,
        generators: Sequence[torch.Generator],
    ) -> list[Draft]:
        """Hand on, and note q."""
        drafts = self.drafter.propose(texts, shape, sampling, generators)
        draft = drafts[0]
        self.q.append(
            [1.0 if draft.q_NV is None else float(draft.q_NV[i, token]) for i, token in enumerate(draft.tokens)]
        )
        return drafts


def views(
    target: Target, result: GenerationResult, q: Sequence[Sequence[float]], sampling: Sampling
) -> tuple[StepView, ...]:
    """Describe each step of a result, its verify pass run once more for the probabilities."""
    model, tokens = target.model, [*result.prompt_tokens, result.tokens[0]]
    widest = max((len(step.tokens) for step in result.steps), default=0)
    cache = model.new_cache(1, len(result.prompt_tokens) + len(result.tokens) + 1 + widest)
    prefill(model, cache, [result.prompt_tokens], ())
    found = []
    for number, step in enumerate(result.steps):
        draft = Draft(step.tokens, step.parents)
        logits_NV = verify(model, cache, [tokens[-1]], [draft]).logits_BQV[0]
        # Under greedy decoding the target's own probabilities say more than the point mass that judges.
        p_NV = distribution(logits_NV, Sampling(temperature=1.0) if sampling.greedy else sampling)
        # No draft is asked for where only one token is left.
        known = q[number] if number < len(q) else ()
        found.append(view(target, step, p_NV, logits_NV.argmax(-1).tolist(), known))
        cache.keep([[0, *(node + 1 for node in step.path)]])
        tokens += step.emitted
    return tuple(found)


def view(target: Target, step: Step, p_NV: torch.Tensor, choices: Sequence[int], q: Sequence[float]) -> StepView:
    """One step of a chain in the page's terms. Row 0 of `p_NV` follows the text, row 1 + i drafted token i."""
    accepted = len(step.path)
    judged = accepted if step.kind == "stop" else accepted + 1
    drafted = tuple(
        DraftedToken(
            text_of(target, token),
            float(p_NV[i, token]),
            q[i],
            "accepted" if i < accepted else "rejected" if i < judged else "unused",
            text_of(target, choices[i]),
        )
        for i, token in enumerate(step.tokens)
    )
    own = None if step.token is None else text_of(target, step.token)
    own_p = 0.0 if step.token is None else float(p_NV[accepted, step.token])
    return StepView(drafted, own, own_p, step.kind)


def text_of(target: Target, token: int) -> str:
    """The token as shown."""
    return target.decode([token], keep_special=True)


def question(target: Target, prompt: Sequence[int]) -> str:
    """The last part of a prompt, as much as a reader needs to know what is being answered."""
    text = " ".join(target.decode(prompt).split())
    return text if len(text) <= SHOWN else "… " + text[-SHOWN:]
