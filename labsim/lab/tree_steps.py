"""What real verify steps say about trees: acceptance lengths with intervals, and the draft's own confidence.

Answers differ more between prompts than between steps of one answer, so intervals come from resampling whole prompts
(Efron's bootstrap). Where two shapes answer the same prompts, the difference is resampled pairwise, which is much
sharper.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ..decode.result import GenerationResult, Step
from ..drafts.small import SmallModelDrafter
from ..models.llama import LanguageModel
from ..sim.intervals import Interval
from .exercises.trees_by_hand import path_chances


def pooled_length(results: Sequence[GenerationResult]) -> float:
    """Tokens per verify step over all answers together."""
    steps = sum(len(one.steps) for one in results)
    return 1 + sum(one.accepted for one in results) / steps if steps else 1.0


def length_interval(
    results: Sequence[GenerationResult], seed: int, *, draws: int = 1000, confidence: float = 0.95
) -> Interval:
    """Bootstrap interval of the acceptance length over prompts."""
    return _bootstrap([results], seed, draws, confidence)


def gain_interval(
    results: Sequence[GenerationResult],
    baseline: Sequence[GenerationResult],
    seed: int,
    *,
    draws: int = 1000,
    confidence: float = 0.95,
) -> Interval:
    """Bootstrap interval of the difference of two acceptance lengths on the same prompts, resampled pairwise."""
    if len(results) != len(baseline):
        raise ValueError(f"{len(results)} and {len(baseline)} answers: a paired interval needs the same prompts twice")
    return _bootstrap([results, baseline], seed, draws, confidence)


def _bootstrap(groups: Sequence[Sequence[GenerationResult]], seed: int, draws: int, confidence: float) -> Interval:
    rng, size = random.Random(seed), len(groups[0])
    counts = [[(one.accepted, len(one.steps)) for one in group] for group in groups]
    found = []
    for _ in range(draws):
        chosen = rng.choices(range(size), k=size)
        lengths = [sum(group[i][0] for i in chosen) / max(1, sum(group[i][1] for i in chosen)) for group in counts]
        found.append(lengths[0] - lengths[1] if len(lengths) == 2 else 1 + lengths[0])
    found.sort()
    edge = int((1 - confidence) / 2 * draws)
    return Interval(found[edge], found[-1 - edge])


def texts_before(result: GenerationResult) -> Iterator[tuple[list[int], Step]]:
    """Each step with the text to which its draft was made."""
    text = [*result.prompt_tokens, result.tokens[0]]
    for step in result.steps:
        yield list(text), step
        text += step.emitted


def draft_chances(drafter: SmallModelDrafter, text: Sequence[int], step: Step) -> list[float]:
    """For each node of a draft the drafter's chance for it, given its parent: one forward of the small model."""
    model, last = drafter.model, len(text) - 1
    parents = [*range(-1, last), *(last if parent < 0 else len(text) + parent for parent in step.parents)]
    cache = model.new_cache(1, len(parents))
    out = model.forward(torch.tensor([[*text, *step.tokens]]), cache, parents_BQ=[parents])
    chances_QN = out.logits_BQV[0, last:].float().softmax(-1)
    ids = drafter.target_ids_N
    columns = {int(token): i for i, token in enumerate(ids)} if ids is not None else range(chances_QN.shape[-1])
    return [
        float(chances_QN[parent + 1, columns[token]]) for token, parent in zip(step.tokens, step.parents, strict=True)
    ]


def branch_difference(model: LanguageModel, text: Sequence[int], step: Step) -> float:
    """Largest difference in any logit between one forward over the whole tree and one forward per branch."""
    last = len(text) - 1
    parents = [*range(-1, last), *(last if parent < 0 else len(text) + parent for parent in step.parents)]
    cache = model.new_cache(1, len(parents))
    together = model.forward(torch.tensor([[*text, *step.tokens]]), cache, parents_BQ=[parents]).logits_BQV[0]
    worst = 0.0
    for leaf in set(range(len(step.parents))) - set(step.parents):
        branch, node = [], leaf
        while node >= 0:
            branch, node = [node, *branch], step.parents[node]
        tokens = [*text, *(step.tokens[node] for node in branch)]
        alone = model.forward(torch.tensor([tokens]), model.new_cache(1, len(tokens))).logits_BQV[0]
        rows = [*range(last, last + 1), *(len(text) + node for node in branch)]
        worst = max(worst, float((together[rows] - alone[last:]).abs().max()))
    return worst


def sharpened(drafter: SmallModelDrafter, factor: float) -> SmallModelDrafter:
    """The same drafter with its logits multiplied by `factor`: same ranking of words, other confidence.

    The head reads the last norm's output: scaling that norm's weight scales the logits. All other weights are shared.
    """
    if not factor > 0:
        raise ValueError(f"factor is {factor}; allowed: above 0 (1 changes nothing)")
    model = copy.copy(drafter.model)
    model.norm = drafter.model.norm * factor
    return SmallModelDrafter(model, drafter.target_vocab_size, drafter.target_ids_N)


@dataclass(frozen=True)
class Node:
    """One drafted node of a real step: depth, rank among its siblings (1 = tried first), path chance, and its fate."""

    depth: int
    rank: int
    chance: float
    accepted: bool
    parent_accepted: bool


def judged_nodes(drafter: SmallModelDrafter, results: Sequence[GenerationResult], limit: int) -> list[list[Node]]:
    """Per step the nodes of its draft with the draft's path chances; at most `limit` steps, spread over the answers."""
    everything = [(text, step) for one in results for text, step in texts_before(one) if step.tokens]
    stride = max(1, len(everything) // limit)
    return [_nodes(drafter, text, step) for text, step in everything[::stride][:limit]]


def _nodes(drafter: SmallModelDrafter, text: Sequence[int], step: Step) -> list[Node]:
    chances = path_chances(step.parents, draft_chances(drafter, text, step))
    accepted, seen = set(step.path), {}
    depths: list[int] = []
    nodes = []
    for node, parent in enumerate(step.parents):
        seen[parent] = seen.get(parent, 0) + 1
        depths.append(1 if parent < 0 else depths[parent] + 1)
        nodes.append(Node(depths[-1], seen[parent], chances[node], node in accepted, parent < 0 or parent in accepted))
    return nodes
