"""How good is a draft in real decoding: acceptance by depth with an interval, times, and what its state does.

A row is one data set at one context length. Each seed draws its own prompts; every prompt is decoded for real, with
chains of k drafted tokens. The interval is a bootstrap over prompts, which are the independent things here: tokens of
one answer are not, nor are two answers to a prompt that two seeds drew (greedy ones are the same answer twice).

Shapes: P prompts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from ..decode.generate import generate
from ..decode.result import GenerationResult
from ..drafts.eagle_drafter import EagleDrafter
from ..drafts.protocol import Drafter
from ..drafts.shape import Chain
from ..features.source import Online
from ..models.fields import shown
from ..models.load import Target
from ..models.paths import data_directory
from ..models.sampling import Sampling
from .probes.disturbed import Disturbance, Disturbed
from .probes.drift import Drift, drift
from .probes.rendering import AS_TRAINED, Rendering
from .probes.sink import EARLY, FIRST_QUERY, find_sink
from .prompts import DOMAINS, Prompt, read_prompts

RESAMPLES = 2000
PROBED_ANSWERS = 6


@dataclass(frozen=True)
class Row:
    """One data set at one context length; lists have one entry per depth.

    Attributes:
        context: asked-for tokens of a prompt; None for the prompts' own length, whose mean is `prompt_tokens`.
        prompts: different prompts that were answered; `answers` counts one that several seeds drew each time.
        interval: 95 % bootstrap interval of the acceptance length, over prompts.
        conditional: share of the chains alive at a depth that survive it; 0 where none is.
        hidden_norm, sink_mass, self_mass, recent_mass, entropy: by depth, see `labsim.train.probes`; None for drafts
            without a recurrent state. `feature_norm` has one entry per target layer that the draft reads, `fused_norm`
            is what the draft makes of them.
        sink_token: position of the target's attention sink; None where it has none, and then `sink_mass` is the first
            token's share.
        tpot_mean_ms, tpot_p95_ms: time per output token after the first, over requests.
    """

    data: str
    context: int | None
    prompts: int
    answers: int
    prompt_tokens: float
    answer_tokens: int
    acceptance_length: float
    interval: tuple[float, float]
    conditional: list[float]
    survival: list[float]
    tpot_mean_ms: float
    tpot_p95_ms: float
    hidden_norm: list[float] | None = None
    sink_mass: list[float] | None = None
    self_mass: list[float] | None = None
    recent_mass: list[float] | None = None
    entropy: list[float] | None = None
    feature_norm: list[float] | None = None
    fused_norm: float | None = None
    sink_token: int | None = None


def evaluate(
    target: Target,
    drafter: Drafter,
    data: Sequence[str],
    *,
    k: int,
    contexts: Sequence[int | None] = (None,),
    seeds: int = 3,
    prompts_per_seed: int = 8,
    max_new_tokens: int = 128,
    sampling: Sampling | None = None,
    rendering: Rendering = AS_TRAINED,
    disturbance: Disturbance | None = None,
    done: Callable[[], None] = lambda: None,
) -> list[Row]:
    """One row per data set and context; `done` hears of each answer.

    Args:
        rendering: how prompts become tokens.
        disturbance: of what a recurrent draft feeds itself.

    Raises:
        ValueError: unknown data, a full context, or a disturbance of a draft without a state.
    """
    if disturbance is not None:
        drafter = disturbed(drafter, disturbance)
    sets = {name: prompts_of(name) for name in data}
    rows = []
    for name, prompts in sets.items():
        for context in contexts:
            results: list[GenerationResult] = []
            asked: list[str] = []
            for seed in range(seeds):
                for one, ids in drawn(target, prompts, context, seed, prompts_per_seed, max_new_tokens, rendering):
                    asked.append(one.id)
                    results.append(
                        generate(
                            target,
                            ids,
                            drafter=drafter,
                            shape=Chain(k),
                            max_new_tokens=max_new_tokens,
                            sampling=sampling or Sampling(),
                            seed=seed,
                        )
                    )
                    done()
            probed, sink_token = probe(target, drafter, results, k)
            rows.append(summarise(name, context, results, probed, k, sink_token, asked=asked))
    return rows


def disturbed(drafter: Drafter, disturbance: Disturbance) -> EagleDrafter:
    """The same drafter with its guesses disturbed. ValueError for a draft without a state of its own."""
    if not isinstance(drafter, EagleDrafter):
        raise ValueError(f"a {drafter.name} draft feeds itself no state: noise needs eagle1, eagle3, eagle3.1 or mtp")
    return EagleDrafter(Disturbed(drafter.draft, disturbance), drafter.vocabulary)


def prompts_of(name: str) -> list[Prompt]:
    """Held-out prompts of a domain, or those of a JSONL file."""
    if name in DOMAINS:
        held_out = read_prompts(data_directory() / "prompts" / "held_out.jsonl")
        return [prompt for prompt in held_out if prompt.domain == name]
    path = Path(name)
    if path.is_file():
        return read_prompts(path)
    raise ValueError(f"data {shown(name)} is neither one of {', '.join(DOMAINS)} nor a JSONL file of prompts")


def chosen(target: Target, prompts: Sequence[Prompt], *arguments: object) -> Iterator[list[int]]:
    """The token ids of `drawn`."""
    return (ids for _, ids in drawn(target, prompts, *arguments))


def drawn(
    target: Target,
    prompts: Sequence[Prompt],
    context: int | None,
    seed: int,
    count: int,
    max_new_tokens: int,
    rendering: Rendering = AS_TRAINED,
) -> Iterator[tuple[Prompt, list[int]]]:
    """The prompts that this seed draws, rendered; with a context, each behind background text up to so many tokens."""
    room = target.model.config.max_positions - max_new_tokens
    if context is not None and context > room:
        raise ValueError(f"context {context}: {target.name} has room for {room} tokens before the answer")
    rng = random.Random(f"eval/{seed}")
    for prompt in rng.sample(prompts, min(count, len(prompts))):
        ids = rendering(target, prompt.messages)
        if context is not None:
            ids = lengthened(target, prompt, context, rng, rendering)
        if len(ids) <= room:
            yield prompt, ids


def lengthened(
    target: Target, prompt: Prompt, context: int, rng: random.Random, rendering: Rendering = AS_TRAINED
) -> list[int]:
    """The prompt behind an exchange of background text, as close below `context` tokens as whole words allow.

    ValueError when the prompt alone is longer.
    """
    short = rendering(target, prompt.messages)
    if len(short) > context:
        raise ValueError(f"prompt {prompt.id} has {len(short)} tokens, more than the context of {context}")
    filler = [other.messages[-1]["content"] for other in prompts_of("document")]
    rng.shuffle(filler)
    words = " ".join(filler * (1 + context // 2000)).split(" ")[:context]  # a word is at least a token

    def rendered(count: int) -> list[int]:
        notes = {"role": "user", "content": "Keep these notes in mind:\n\n" + " ".join(words[:count])}
        at = 1 if prompt.messages[0]["role"] == "system" else 0
        exchange = [notes, {"role": "assistant", "content": "I have read them."}]
        return rendering(target, [*prompt.messages[:at], *exchange, *prompt.messages[at:]])

    low, high = 0, len(words)
    if len(rendered(0)) > context:
        return short
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(rendered(middle)) <= context else (low, middle - 1)
    return rendered(low)


def probe(
    target: Target, drafter: Drafter, results: Sequence[GenerationResult], k: int
) -> tuple[list[Drift], int | None]:
    """Probes along some of the answers, and the target's sink; nothing for drafts without a recurrent state."""
    if not isinstance(drafter, EagleDrafter):
        return [], None
    source = Online(target.model, drafter.hidden_layers)
    texts = [
        ([*result.prompt_tokens, *result.tokens], len(result.prompt_tokens))
        for result in results
        if len(result.tokens) > k + 2 and len(result.prompt_tokens) >= EARLY
    ][:PROBED_ANSWERS]
    long_enough = [text for text, _ in texts if len(text) > FIRST_QUERY]
    sink_token = find_sink(target.model, long_enough).token if long_enough else None
    found = []
    for text, start in texts:
        [states] = source.read([text])
        found.append(drift(drafter.draft, text, start, states.features_TF, k, sink_token=sink_token or 0))
    return found, sink_token


def summarise(
    name: str,
    context: int | None,
    results: Sequence[GenerationResult],
    probed: Sequence[Drift],
    k: int,
    sink_token: int | None = None,
    *,
    asked: Sequence[str] | None = None,
) -> Row:
    """One row. `asked` says which prompt each result answers; None for a prompt each.

    ValueError when no prompt was short enough to be decoded.
    """
    if not results:
        raise ValueError(f"no prompt of {name} fits the target's context")
    runs = [[len(step.path) for step in result.steps] for result in results]
    by_prompt: dict[object, list[int]] = {}
    for prompt, run in zip(range(len(runs)) if asked is None else asked, runs, strict=True):
        by_prompt.setdefault(prompt, []).extend(run)
    steps = sum(map(len, runs))
    survival = [sum(run > depth for row in runs for run in row) / steps if steps else 0.0 for depth in range(k)]
    before = [1.0, *survival[:-1]]
    tpot = [1e3 * result.seconds.decode / (len(result.tokens) - 1) for result in results if len(result.tokens) > 1]
    mean = asdict(Drift.mean(probed)) if probed else {}
    by_depth = {name: list(values) for name, values in mean.items() if name != "fused_norm"}

    return Row(
        data=name,
        context=context,
        prompts=len(by_prompt),
        answers=len(results),
        prompt_tokens=fmean(len(result.prompt_tokens) for result in results),
        answer_tokens=sum(len(result.tokens) for result in results),
        acceptance_length=1 + sum(map(sum, runs)) / steps if steps else 1.0,
        interval=bootstrap(list(by_prompt.values())),
        conditional=[now / then if then else 0.0 for now, then in zip(survival, before, strict=True)],
        survival=survival,
        tpot_mean_ms=fmean(tpot) if tpot else 0.0,
        tpot_p95_ms=float(np.percentile(tpot, 95)) if tpot else 0.0,
        fused_norm=mean["fused_norm"][0] if mean else None,
        sink_token=sink_token,
        **by_depth,
    )


def bootstrap(runs: Sequence[Sequence[int]], confidence: float = 0.95) -> tuple[float, float]:
    """Interval of 1 + accepted / steps, drawing prompts with replacement; the same for the same runs, a prompt each."""
    accepted_P = np.array([sum(row) for row in runs], float)
    steps_P = np.array([len(row) for row in runs], float)
    if not steps_P.sum():
        return 1.0, 1.0
    draws = np.random.default_rng(0).integers(0, len(runs), (RESAMPLES, len(runs)))
    steps_R = steps_P[draws].sum(axis=1)
    lengths_R = 1 + accepted_P[draws].sum(axis=1)[steps_R > 0] / steps_R[steps_R > 0]
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(lengths_R, [tail, 100 - tail])
    return float(low), float(high)
