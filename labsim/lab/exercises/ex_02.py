"""Exercises of notebook 02: why it stops paying, and where the tails come from."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from ..check import Check, Misconception, choice_check
from ..exercise import Exercise
from .tail_cases import CAUSES, cause_of_the_tail, tail_cases


def break_even(plain_ms: float, speculative_ms: float, k: int) -> float:
    """(R - 1) / K."""
    return (speculative_ms / plain_ms - 1) / k


def speculative_config(mode: str, k: int, draft: str) -> dict[str, Any]:
    """vLLM's `speculative_config` for three ways of drafting."""
    if mode == "n-gram":
        return {"method": "ngram", "num_speculative_tokens": k, "prompt_lookup_max": 4}
    method = {"draft model": "draft_model", "EAGLE-3": "eagle3"}[mode]
    return {"method": method, "model": draft, "num_speculative_tokens": k}


# Of vLLM's SpeculativeConfig, those that a learner may reasonably add.
KNOWN_KEYS = {
    "method",
    "model",
    "num_speculative_tokens",
    "prompt_lookup_max",
    "prompt_lookup_min",
    "draft_tensor_parallel_size",
    "max_model_len",
    "quantization",
    "revision",
    "enforce_eager",
    "disable_padded_drafter_batch",
    "speculative_model",
}


def guessed_method(model: Any) -> str:
    """What vLLM takes a config without a method for, from the name of its checkpoint (config/speculative.py)."""
    name = str(model).lower()
    return "eagle" if "eagle-" in name else "eagle3" if "eagle3" in name else "draft_model"


def essence(config: Any) -> dict[str, Any]:
    """What decides about a config; further keys that vLLM knows are the learner's business."""
    if not isinstance(config, Mapping):
        return {"type": type(config).__name__}
    method = config.get("method", guessed_method(config["model"]) if "model" in config else None)
    # Given only one of the two, vLLM takes it for both.
    shortest = config.get("prompt_lookup_min", config.get("prompt_lookup_max", 1))
    longest = config.get("prompt_lookup_max", shortest)
    lookup = all(type(n) is int and n >= 1 for n in (shortest, longest)) and longest >= shortest
    return {
        "type": "dict",
        "flags of older releases": sorted(key for key in config if str(key).startswith("speculative_")),
        "keys that vLLM does not know": sorted(str(key) for key in config if key not in KNOWN_KEYS),
        "method": method,
        "num_speculative_tokens": config.get("num_speculative_tokens"),
        "model": config.get("model"),
        "prompt_lookup_max and prompt_lookup_min whole numbers, 1 <= min <= max": method != "ngram" or lookup,
    }


def same_config(got: Any, wanted: Any) -> str | None:
    """The first difference that matters, or None."""
    found, right = essence(got), essence(wanted)
    for key, value in right.items():
        if found.get(key) != value:
            return f"{key} should be {value!r}, but is {found.get(key)!r}"
    return None


def eagle3_head_gigabytes(
    hidden: int, intermediate: int, heads: int, kv_heads: int, head_dim: int, vocab: int
) -> float:
    """bf16 weights of an EAGLE-3 head without embedding table, in GB (10^9 bytes)."""
    fusion = 3 * hidden * hidden
    attention = 2 * hidden * (heads + 2 * kv_heads) * head_dim + heads * head_dim * hidden
    return (fusion + attention + 3 * hidden * intermediate + vocab * hidden) * 2 / 1e9


def _head(
    hidden: int, intermediate: int, heads: int, kv_heads: int, head_dim: int, vocab: int, **change: float
) -> float:
    """The head's size with one part changed, for the misconceptions."""
    fusion = change.get("fusion", 3) * hidden * hidden
    rows = change.get("rows", 2) * hidden
    attention = rows * (heads + 2 * kv_heads) * head_dim + heads * head_dim * hidden
    mlp = change.get("mlp", 3) * hidden * intermediate
    head = change.get("table", vocab) * hidden
    return (fusion + attention + mlp + head) * change.get("bytes", 2) / change.get("unit", 1e9)


def _some_steps(rng: Random) -> tuple[float, float, int]:
    plain = round(rng.uniform(4, 40), 2)
    return plain, round(plain * rng.uniform(1.05, 3), 2), rng.randint(1, 8)


def _some_head(rng: Random) -> tuple[int, int, int, int, int, int]:
    heads = rng.choice([16, 24, 32, 40, 64])
    hidden = heads * rng.choice([96, 128])
    return hidden, hidden * rng.randint(2, 4), heads, rng.choice([2, 4, 8]), 128, rng.choice([16000, 32000, 64000])


EXERCISES = (
    Exercise(
        id="02.1",
        title="Break-even from two step times",
        minutes=4,
        difficulty="easy",
        prompt=(
            "A plain decode step takes `plain_ms`, a speculative one `speculative_ms` (draft and verify included). "
            "Return the accepted/drafted rate at which speculation neither wins nor loses with `k` drafted tokens."
        ),
        hints=(
            "Speedup = tokens per step / R, with R = speculative_ms / plain_ms. When is that 1?",
            "Tokens per step are 1 + k * alpha. So 1 + k * alpha = R.",
            "R is `speculative_ms / plain_ms`. Solve `1 + k * alpha = R` for alpha.",
        ),
        check=Check(
            reference=break_even,
            cases=[(7.28, 9.55, 3), (13.5, 25.8, 3), (8.0, 8.8, 5)],
            random_cases=_some_steps,
            misconceptions=[
                Misconception(
                    "not divided by K",
                    "That is the overhead of the whole step. K drafted tokens share it.",
                    wrong=lambda plain_ms, speculative_ms, k: speculative_ms / plain_ms - 1,
                ),
                Misconception(
                    "the target's own token has to be earned too",
                    "R / K asks the draft for all tokens of the step; one of them is the target's and always comes.",
                    wrong=lambda plain_ms, speculative_ms, k: speculative_ms / plain_ms / k,
                ),
                Misconception(
                    "divided by K + 1",
                    "The verify pass scores K + 1 positions, but only K tokens are drafted.",
                    wrong=lambda plain_ms, speculative_ms, k: (speculative_ms / plain_ms - 1) / (k + 1),
                ),
                Misconception(
                    "milliseconds, not a ratio",
                    "The extra milliseconds only count in relation to a plain step.",
                    wrong=lambda plain_ms, speculative_ms, k: (speculative_ms - plain_ms) / k,
                ),
                Misconception(
                    "relative to the speculative step",
                    "You divided the extra time by the speculative step. Speedup compares with the plain one.",
                    wrong=lambda plain_ms, speculative_ms, k: (1 - plain_ms / speculative_ms) / k,
                ),
            ],
        ),
        takeaway="Two step times from your own engine are all that a break-even needs; no model of the GPU.",
    ),
    Exercise(
        id="02.2",
        title="Mean down 25 %, P99 up 15 %: why?",
        minutes=12,
        difficulty="hard",
        prompt=(
            "Two reports of the same requests, `before` and `after` speculation, with the keys `chunk_gap_p50_ms`, "
            "`chunk_gap_p99_ms`, `prefill_gap_share` (share of all chunk gaps with a slice of a prompt in them), "
            "`prefill_step_share` (the same of all steps), `tpot_mean_ms` and `tpot_p99_ms`. Return why the P99 of the "
            "chunk gap rose: `'longer steps'` (the slowest 1 % of gaps are ordinary steps, which now take R times as "
            "long), `'prefill crosses 1 %'` (gaps with a prompt in them were too rare to show before), or "
            "`'prefill stalls'` (the slowest 1 % were gaps with a prompt before and after)."
        ),
        hints=(
            "A P99 of gaps looks at the slowest 1 gap in 100. A gap with a prompt slice in it is always a slow one.",
            "Compare a share with 0.01, before and after: the share of gaps. A step with a prompt in it makes one gap "
            "fewer, since the arriving request has none; with four users that is a quarter.",
            "Gap share after below 0.01: longer steps. Else gap share before below 0.01: it crossed. Else stalls.",
        ),
        check=Check(
            reference=cause_of_the_tail,
            cases=tail_cases(),
            misconceptions=[
                Misconception(
                    "a second target pass",
                    "In none of these runs does a rejection cost a second pass: target forwards per token stay "
                    "below 1. "
                    "The tail grows all the same.",
                    wrong=lambda before, after: "second pass",
                ),
                Misconception(
                    "looks at the run after only",
                    "A share above 1 % after speculation is not yet the cause: was it there before?",
                    wrong=lambda before, after: (
                        CAUSES[0] if after["prefill_gap_share"] < 0.01 else "prefill crosses 1 %"
                    ),
                ),
                Misconception(
                    "looks at the run before only",
                    "Speculation finishes answers in fewer steps, so the share of gaps with a prompt rises.",
                    wrong=lambda before, after: CAUSES[0] if before["prefill_gap_share"] < 0.01 else "prefill stalls",
                ),
                Misconception(
                    "counts steps, not gaps",
                    "The P99 is taken over gaps. A step with a prompt in it makes fewer of them than an ordinary one: "
                    "the request whose prompt is read has no gap there.",
                    wrong=lambda before, after: cause_of_the_tail(
                        {"prefill_gap_share": before["prefill_step_share"]},
                        {"prefill_gap_share": after["prefill_step_share"]},
                    ),
                ),
                Misconception(
                    "1 % written as 1",
                    "The share is a fraction: 1 % is 0.01.",
                    wrong=lambda before, after: CAUSES[0],
                ),
                Misconception(
                    "judged by the mean",
                    "TPOT falls in all of these; it says nothing about the slowest chunks.",
                    wrong=lambda before, after: (
                        "prefill stalls" if after["tpot_mean_ms"] < before["tpot_mean_ms"] else CAUSES[0]
                    ),
                ),
            ],
        ),
        takeaway="Three causes, three cures: accept longer chunks or a smaller K; a smaller prefill slice; both.",
    ),
    Exercise(
        id="02.3",
        title="Three drafts, three configs",
        minutes=8,
        difficulty="easy",
        prompt=(
            "Return vLLM's `speculative_config` (a dict) for `mode` in `'draft model'`, `'EAGLE-3'`, `'n-gram'`, with "
            "`k` drafted tokens. `draft` is the draft's checkpoint, for the modes that have one."
        ),
        hints=(
            "Keys: `method`, `num_speculative_tokens`, and for a checkpoint `model`. (vLLM guesses the method "
            "from some checkpoints' names; naming it holds for all.)",
            "The three methods are called `draft_model`, `eagle3` and `ngram`. An n-gram draft copies from the prompt.",
            "For n-gram: `{'method': 'ngram', 'num_speculative_tokens': k, 'prompt_lookup_max': 4}`",
        ),
        check=Check(
            reference=speculative_config,
            cases=[
                ("draft model", 5, "meta-llama/Llama-3.2-1B-Instruct"),
                ("EAGLE-3", 3, "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B"),
                ("n-gram", 4, ""),
            ],
            compare=same_config,
            misconceptions=[
                Misconception(
                    "an EAGLE head served as a draft model",
                    "An EAGLE head reads the target's hidden states; it is no model that runs on its own.",
                    wrong=lambda mode, k, draft: speculative_config(
                        "draft model" if mode == "EAGLE-3" else mode, k, draft
                    ),
                ),
                Misconception(
                    "the method is EAGLE-1",
                    "`eagle` is the head that reads the last layer only; an EAGLE-3 checkpoint needs `eagle3`.",
                    wrong=lambda mode, k, draft: {
                        **speculative_config(mode, k, draft),
                        **({"method": "eagle"} if mode == "EAGLE-3" else {}),
                    },
                ),
                Misconception(
                    "flags of older releases",
                    "Since vLLM 0.8 there is one dict; `speculative_model` and its sisters are gone.",
                    wrong=lambda mode, k, draft: {"speculative_model": draft, "num_speculative_tokens": k},
                ),
                Misconception(
                    "an n-gram draft with a checkpoint",
                    "The n-gram draft has no weights: it looks up the last tokens in the prompt.",
                    wrong=lambda mode, k, draft: {**speculative_config(mode, k, draft), "model": draft or "ngram"},
                ),
                Misconception(
                    "K is missing",
                    "Without `num_speculative_tokens` nobody knows how far to draft.",
                    wrong=lambda mode, k, draft: {
                        key: value
                        for key, value in speculative_config(mode, k, draft).items()
                        if key != "num_speculative_tokens"
                    },
                ),
            ],
        ),
        takeaway="No config, no speculation: vLLM speculates only when this dict is set.",
    ),
    Exercise(
        id="02.4",
        title="A draft model beside chunked prefill",
        minutes=3,
        difficulty="warm-up",
        prompt=(
            "The note above says that n-gram drafting starts beside chunked prefill where a draft model does not. "
            "Which work does a step with a slice of a prompt bring a draft *model*, and not an n-gram draft? "
            "`'cache'`: run its own layers over the slice, to fill a KV cache of its own; `'verify'`: verify drafted "
            "tokens beside the slice; `'prompt'`: see the prompt's tokens at all; `'reject'`: take rejected tokens "
            "back out of the target's cache."
        ),
        hints=(
            "Chunked prefill puts slices of prompts and decoding requests into one step. Who must see such a slice?",
            "Verifying and rejecting are the target's work: the same for every kind of draft.",
            "Both drafts know the prompt. One of them looks tokens up in it; the other must compute on it first.",
        ),
        check=choice_check(
            "cache",
            {
                "cache": "Right: it has layers and a KV cache of its own, so every slice has to go through two models.",
                "verify": "The target verifies, whoever drafted: an n-gram draft's tokens stand beside the slice too.",
                "prompt": "An n-gram draft reads the prompt as well: it looks up the last tokens there.",
                "reject": "The target's cache drops rejected tokens for every kind of draft.",
            },
        ),
        takeaway=(
            "A draft with a cache of its own has to follow everything the scheduler does. Notes on what starts age "
            "quickly: read the one of your version, and start the engine once before planning on it."
        ),
    ),
    Exercise(
        id="02.5",
        title="The memory of an EAGLE-3 head",
        minutes=12,
        difficulty="medium",
        prompt=(
            "Return the bf16 weights of an EAGLE-3 head in GB (10^9 bytes), without the embedding table that it shares "
            "with the target and without norms. Parts: a fusion of three target features (3 * hidden -> hidden), one "
            "decoder layer whose q, k, v read `[embedding, state]` (2 * hidden wide) and whose output is hidden "
            "wide, a "
            "gated MLP (three matrices of hidden x intermediate), and a head of its own over `vocab` draft tokens."
        ),
        hints=(
            "Count parameters matrix by matrix: rows times columns. Then two bytes each.",
            "q: 2h x heads*head_dim; k and v: 2h x kv_heads*head_dim each; o: heads*head_dim x h; fusion: 3h x h.",
            "`(3*h*h + 2*h*(heads + 2*kv_heads)*head_dim + heads*head_dim*h + 3*h*intermediate + vocab*h) * 2 / 1e9`",
        ),
        check=Check(
            reference=eagle3_head_gigabytes,
            cases=[(8192, 28672, 64, 8, 128, 32000), (4096, 14336, 32, 8, 128, 32000)],
            random_cases=_some_head,
            rel_tol=2e-3,
            misconceptions=[
                Misconception(
                    "the fusion is missing",
                    "Three target features of width h come in; one matrix of 3h x h makes one of them.",
                    wrong=lambda *shape: _head(*shape, fusion=0),
                ),
                Misconception(
                    "attention reads h, not 2h",
                    "q, k and v of the head read embedding and state side by side, twice as wide as in the target.",
                    wrong=lambda *shape: _head(*shape, rows=1),
                ),
                Misconception(
                    "the target's full vocabulary",
                    "The head has a smaller vocabulary of its own; that is where much of its memory is saved.",
                    wrong=lambda *shape: _head(*shape, table=128256),
                ),
                Misconception(
                    "an MLP of two matrices",
                    "The MLP is gated: gate, up and down.",
                    wrong=lambda *shape: _head(*shape, mlp=2),
                ),
                Misconception(
                    "one byte per parameter",
                    "bf16 takes two bytes.",
                    wrong=lambda *shape: _head(*shape, bytes=1),
                ),
                Misconception(
                    "GiB, not GB",
                    "You divided by 2^30; a GB is 10^9 bytes.",
                    wrong=lambda *shape: _head(*shape, unit=2**30),
                ),
            ],
        ),
        takeaway=(
            "For Llama-3.3-70B: 2.81 GB, more than the 2.47 GB of a whole Llama-3.2-1B, but with one layer of KV cache "
            "instead of sixteen."
        ),
    ),
)
