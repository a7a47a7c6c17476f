"""Acceptance of single requests, as engines put it into their JSON answers.

    vLLM (0.27 on)   metrics.speculative_decoding: acceptance_histogram, num_spec_steps, num_draft_tokens, ...
    SGLang           meta_info: spec_verify_ct, spec_num_correct_drafts, spec_num_proposed_drafts, ...  (names changed
                     with the versions; some counted the target's own token among the accepted)
    llama.cpp        timings: draft_n, draft_n_accepted
    TensorRT-LLM     speculative_decoding: total_draft_tokens, ...; specDecodingStats per iteration

A histogram h_0 .. h_K counts the steps that accepted 0 .. K tokens: survival is its upper tail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .sums import Observation
from .values import LARGEST_K, count, draft_length, length

_ACCEPTED = (
    "num_accepted_draft_tokens",
    "total_accepted_draft_tokens",
    "spec_num_correct_drafts",
    "spec_accepted_drafts",
    "spec_accept_token_num",
    "spec_accepted_tokens",
    "draft_n_accepted",
    "numAcceptedTokens",
    "num_accepted_tokens",
)
_DRAFTED = (
    "num_draft_tokens",
    "total_draft_tokens",
    "spec_num_proposed_drafts",
    "spec_proposed_drafts",
    "spec_draft_token_num",
    "draft_n",
    "numDraftTokens",
)
_STEPS = (
    "num_spec_steps",
    "num_drafts",
    "spec_verify_ct",
    "draft_n_verif_steps",
    "draft_rounds",
    "numRequestsWithDraftTokens",
)
_HISTOGRAM = ("acceptance_histogram", "spec_correct_drafts_histogram", "spec_accept_histogram")
_LENGTH = ("mean_acceptance_length", "spec_accept_length", "acceptanceLength")
_MOST_NODES = 2_000_000


@dataclass(frozen=True)
class Found:
    """One request's figures, and what is odd about them. `steps` holds accepted tokens per step where listed."""

    engine: str
    observation: Observation
    variable_length: bool = False
    steps: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()


def requests(document: Any) -> Iterator[Found]:
    """Every request found in a JSON value, in order.

    What an answer says once at its top (`metrics`, `sglext`) and again in each of its `choices` counts once.
    """
    stack = [document]
    for _ in range(_MOST_NODES):
        if not stack:
            return
        node = stack.pop()
        if isinstance(node, dict):
            if (found := _request(node)) is not None:
                yield found
                continue
            if isinstance(node.get("choices"), list):
                own = list(requests([value for name, value in node.items() if name != "choices"]))
                if own:
                    yield from own
                    continue
            stack.extend(value for value in reversed(node.values()) if isinstance(value, dict | list))
        elif isinstance(node, list):
            stack.extend(value for value in reversed(node) if isinstance(value, dict | list))


def _first(node: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str | None, Any]:
    return next(((name, node[name]) for name in names if node.get(name) is not None), (None, None))


_KEYS = frozenset(_ACCEPTED + _DRAFTED + _STEPS + _HISTOGRAM + _LENGTH)


def _engine(node: Mapping[str, Any]) -> str | None:
    if "draft_n" in node and "draft_n_accepted" in node:
        return "llama.cpp"
    if any(name.startswith("spec_") for name in node if name in _KEYS):
        return "sglang"
    if "total_draft_tokens" in node or "numDraftTokens" in node:
        return "tensorrt-llm"
    if "acceptance_histogram" in node or {"num_draft_tokens", "num_accepted_draft_tokens"} <= node.keys():
        return "vllm"
    return None


def _request(node: Mapping[str, Any]) -> Found | None:
    engine = _engine(node)
    if engine is None:
        return None
    warnings: list[str] = []
    accepted_name, raw_accepted = _first(node, _ACCEPTED)
    accepted, drafted, steps = count(raw_accepted), count(_first(node, _DRAFTED)[1]), count(_first(node, _STEPS)[1])
    mean = length(_first(node, _LENGTH)[1])
    per_step, drafted_per_step = _per_step(node)
    histogram, by_length = _histogram(node)
    if histogram is None and per_step:
        histogram = [0] * (max(per_step) + 1)
        for value in per_step:
            histogram[value] += 1
    if by_length is not None:
        drafted = by_length if drafted is None else drafted
    if histogram is not None:
        from_steps, from_accepted = sum(histogram), sum(i * value for i, value in enumerate(histogram))
        steps = from_steps if steps is None else steps
        if accepted is not None and accepted != from_accepted:
            if accepted_name and accepted == from_accepted + from_steps:
                accepted, drafted = from_accepted, drafted - steps if drafted is not None else None
            else:
                warnings.append(f"identity broken: the histogram adds up to {from_accepted} accepted, not {accepted}")
        accepted = from_accepted if accepted is None else accepted
        if steps != from_steps:
            warnings.append(f"identity broken: the histogram holds {from_steps} steps, not {steps}")
    elif accepted is not None and steps and mean is not None and abs(accepted / steps - mean) < 1e-6:
        # Versions whose count of accepted tokens holds the target's own: so does the count of drafted ones.
        accepted, drafted = accepted - steps, drafted - steps if drafted is not None else None
    if drafted is None and drafted_per_step:
        drafted = sum(drafted_per_step)
    if not drafted and not (steps and mean is not None and mean > 1):
        return None
    k = draft_length(node.get("num_spec_tokens"))
    if k is None and steps and drafted and drafted % steps == 0:
        k = draft_length(drafted // steps)
    if k is None and engine in ("vllm", "tensorrt-llm") and histogram is not None and not per_step:
        # Their histograms are dense, 0 .. K; SGLang's grows with what was seen.
        k = draft_length(len(histogram) - 1)
    shape = _survival(histogram, k) if histogram is not None and k is not None else None
    if accepted is not None and steps and mean is not None and abs(1 + accepted / steps - mean) > 0.05 + 1.5 / steps:
        warnings.append(
            f"identity broken: the stated length {mean:.3f} is not 1 + accepted/steps = {1 + accepted / steps:.3f}"
        )
    return Found(
        engine,
        Observation(
            k=None if engine == "llama.cpp" else k,
            drafts=steps or None,
            drafted=drafted,
            accepted=accepted,
            acceptance_length=mean if accepted is None or not steps else None,
            survival=shape,
        ),
        variable_length=engine == "llama.cpp",
        steps=tuple(per_step[:100_000]),
        warnings=tuple(warnings),
    )


def _per_step(node: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    lists = []
    for name in ("per_step_accepted", "per_step_drafted"):
        value = node.get(name)
        values = [count(item) for item in value] if isinstance(value, list) else []
        lists.append([item for item in values if item is not None and item <= LARGEST_K])
    return lists[0], lists[1]


def _histogram(node: Mapping[str, Any]) -> tuple[list[int] | None, int | None]:
    """(steps by accepted tokens, drafted tokens if the histogram is split by draft length)."""
    value = _first(node, _HISTOGRAM)[1]
    if value is None:
        value = next((item for name, item in node.items() if "histogram" in name and "length" in name), None)
    if isinstance(value, list) and value and all(not isinstance(item, list | dict) for item in value):
        return _counts(value), None
    rows: list[tuple[int, Any]] = []
    if isinstance(value, dict):
        rows = [(count(key) or 0, item) for key, item in value.items()]
    elif isinstance(value, list):
        rows = list(enumerate(value))
    if rows and all(isinstance(item, list) for _, item in rows):
        whole: list[int] = []
        drafted = 0
        for draft, item in rows:
            counts = _counts(item)
            if counts is None or len(counts) > draft + 1:
                return None, None
            whole.extend([0] * (len(counts) - len(whole)))
            for i, n in enumerate(counts):
                whole[i] += n
            drafted += draft * sum(counts)
        return (whole, drafted) if whole else (None, None)
    if isinstance(value, dict) and rows and all(count(item) is not None for _, item in rows):
        whole = [0] * (min(LARGEST_K, max(key for key, _ in rows)) + 1)
        for key, item in rows:
            if key < len(whole):
                whole[key] += count(item) or 0
        return whole, None
    return None, None


def _counts(values: list[Any]) -> list[int] | None:
    counts = [count(value) for value in values[: LARGEST_K + 2]]
    return (
        None if any(value is None for value in counts) or not sum(c or 0 for c in counts) else [c or 0 for c in counts]
    )


def _survival(histogram: list[int], k: int) -> tuple[float, ...] | None:
    steps = sum(histogram)
    if not steps or any(histogram[k + 1 :]):
        return None
    return tuple(sum(histogram[i:]) / steps for i in range(1, k + 1))
