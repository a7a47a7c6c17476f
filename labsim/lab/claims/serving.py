"""Claims S1 to S14 and E7: what speculation buys, where it stops paying, and what an engine reports."""

from __future__ import annotations

from itertools import pairwise

from .findings import Finding, Values, Verdict, near, rule, with_interval
from .table import Claim

_ROUNDED = 0.02  # a published figure of two digits is met within this share
_POINTS = 0.05  # a published change in per cent is met within so many of them
_MODEL = 0.10  # a cost model's prediction meets a measured speedup within this share


@rule(
    "S1",
    "closed form; recorded steps of a GPU",
    "01.tokens_if_accepted_over_drafted",
    "01.speedup_claimed",
    "01.measured_rows",
    "01.largest_identity_error",
    "01.tokens_if_per_token",
    "01.speedup_if_per_token",
)
def tokens_per_forward(claim: Claim, v: Values) -> Finding:
    tokens, speedup = v["01.tokens_if_accepted_over_drafted"], v["01.speedup_claimed"]
    _, _, claimed_tokens, claimed_speedup, _ = claim.figures
    identity = v["01.largest_identity_error"] < 0.005
    same = near(tokens, claimed_tokens, _ROUNDED) and near(speedup, claimed_speedup, _ROUNDED)
    return Finding(
        f"{tokens:.2f} tokens, {speedup:.2f}x; over {v['01.measured_rows']} recorded rows the formula is off by at "
        f"most "
        f"{v['01.largest_identity_error']:.3f} tokens",
        Verdict.REPRODUCED if identity and same else Verdict.TREND if same else Verdict.REFUTED,
        f"an identity for accepted/drafted; with a per-token alpha the same figures give only "
        f"{v['01.tokens_if_per_token']:.2f} tokens and {v['01.speedup_if_per_token']:.2f}x",
    )


@rule("S2", "closed form", "01.alpha_breakeven_bare", "01.speedup_of_a_useless_draft")
def bare_break_even(claim: Claim, v: Values) -> Finding:
    found = v["01.alpha_breakeven_bare"]
    return Finding(
        f"{found:.3f}",
        Verdict.REPRODUCED if near(found, claim.figures[-1], _ROUNDED) else Verdict.REFUTED,
        f"the speedup formula set to one; it holds for a given overhead, and a draft that is never right leaves "
        f"{v['01.speedup_of_a_useless_draft']:.2f}x of the speed",
    )


@rule(
    "S3",
    "cost model, calibrated on published measurements",
    "02.rows_reaching_045",
    "02.rows_looked_at",
    "02.contexts_reaching_045_max",
    "02.breakeven_8b_h100_c1",
    "02.breakeven_8b_h100_c256",
    "02.stops_paying_at",
)
def climbing_break_even(claim: Claim, v: Values) -> Finding:
    reached, rows = v["02.rows_reaching_045"], v["02.rows_looked_at"]
    alone, busy = v["02.breakeven_8b_h100_c1"], v["02.breakeven_8b_h100_c256"]
    climbs = busy > alone
    verdict = Verdict.REPRODUCED if climbs and reached == rows else Verdict.TREND if climbs else Verdict.REFUTED
    return Finding(
        f"{alone:.2f} at 1 and {busy:.2f} at 256 users of an 8B model on an H100; {reached} of {rows} combinations "
        f"of GPU, "
        f"model and context reach {claim.figures[0]}",
        verdict,
        f"it climbs, but so far only with contexts up to {v['02.contexts_reaching_045_max']:,} tokens; longer ones "
        f"keep it low"
        if verdict is Verdict.TREND
        else "looked for over GPUs, models and contexts",
    )


_SECOND_PASS = tuple(f"03.forwards_beyond_one_per_step_{draft}" for draft in ("ngram", "small", "useless"))


@rule(
    "S4",
    "counted forwards of a real model",
    *_SECOND_PASS,
    "03.forwards_per_token_useless",
    "03.rejections_useless",
    "04.forwards_per_step_at_most",
)
def second_forward(claim: Claim, v: Values) -> Finding:
    beyond = max(v[name] for name in _SECOND_PASS)
    most = v["04.forwards_per_step_at_most"]
    useless = v["03.forwards_per_token_useless"]
    none = beyond == 0 and most <= 1 and useless <= 1 and v["03.rejections_useless"]
    return Finding(
        f"{beyond} forwards beyond one per step for three drafts, {most:g} per step at most for trees; "
        f"{useless:.2f} per "
        f"token with a draft that is never right",
        Verdict.REFUTED if none else Verdict.REPRODUCED,
        "the forward that rejects a token already holds the distribution from which its replacement is drawn"
        if none
        else "more forwards than steps were counted",
    )


@rule(
    "S5",
    "event simulation at one load, no blind prediction: 56 users, prompts of 300 tokens, slices of 512",
    "02.complaint_mean_tpot_change",
    "02.complaint_chunk_gap_p99_change",
    "02.tpot_p99_ratio_c128",
    "02.requests_slower_c128",
)
def mean_and_tail(claim: Claim, v: Values) -> Finding:
    mean, tail = v["02.complaint_mean_tpot_change"], v["02.complaint_chunk_gap_p99_change"]
    claimed = -claim.figures[0] / 100, claim.figures[1] / 100
    same = abs(mean - claimed[0]) < _POINTS and abs(tail - claimed[1]) < _POINTS
    return Finding(
        f"mean TPOT {mean:+.0%}, P99 gap between chunks {tail:+.0%}",
        Verdict.REPRODUCED if same else Verdict.TREND if mean < 0 < tail else Verdict.NOT,
        f"other loads give other figures. A chunk is a whole step, so its P99 rises with the step; another P99, of "
        f"TPOT per request, is "
        f"{v['02.tpot_p99_ratio_c128']:.2f} times as long at 128 users, where {v['02.requests_slower_c128']:.0%} of "
        f"the requests "
        f"get slower",
    )


_LENGTHS = {
    "small": "05.length_small",
    "EAGLE-1": "05.length_eagle_1",
    "EAGLE-2": "05.length_eagle_2",
    "EAGLE-3": "05.length_eagle_3",
}


_GENERATIONS = (
    *with_interval(*_LENGTHS.values(), "05.shipped_small", "05.shipped_eagle3_1"),
    "04.alpha_chain_4",
    "04.alpha_dynamic_16",
)


@rule("S6", "drafts trained on the page, SmolLM2-135M, one seed", *_GENERATIONS, scale="laptop")
@rule("S6", "drafts trained on the page, one target (nano), one seed", *_GENERATIONS)
def generations(claim: Claim, v: Values) -> Finding:
    chain = [_LENGTHS[name] for name in ("small", "EAGLE-1", "EAGLE-3")]
    ordered = all(v[one] < v[other] for one, other in pairwise(chain))
    apart = all(v[one + ".high"] < v[other + ".low"] for one, other in pairwise(chain))
    tree = v["05.length_eagle_2"] > v["05.length_eagle_1"]
    verdict = Verdict.REPRODUCED if apart and tree else Verdict.TREND if ordered and tree else Verdict.NOT
    return Finding(
        "tokens per step, in chains, and in a tree for EAGLE-2: "
        + "; ".join(f"{name} {v.spread(metric)}" for name, metric in _LENGTHS.items()),
        verdict,
        f"{'the order' if ordered else 'another order'} after equal, short training; of those that come with the "
        f"course, trained longer, the small draft has {v.spread('05.shipped_small')} and EAGLE-3.1 "
        f"{v.spread('05.shipped_eagle3_1')}; and an alpha has no size without its nodes: the same draft has "
        f"{v['04.alpha_chain_4']:.2f} in a chain of 4 and {v['04.alpha_dynamic_16']:.2f} in a tree of 16",
    )


@rule("S8", "closed form", "01.mixed_alpha_by_drafts", "01.mixed_alpha_by_tokens", "01.mixed_speedup")
def mixed_traffic(claim: Claim, v: Values) -> Finding:
    drafts, tokens = v["01.mixed_alpha_by_drafts"], v["01.mixed_alpha_by_tokens"]
    same = near(drafts, claim.figures[0], _ROUNDED)
    return Finding(
        f"{drafts:.2f} by drafts, {tokens:.2f} by tokens; a gain of {v['01.mixed_speedup']:.2f}x",
        Verdict.REPRODUCED if same and v["01.mixed_speedup"] > 1 else Verdict.REFUTED,
        f"the engine's counter reads {drafts:.2f} if the shares are of drafts, and {tokens:.3f} if they are of "
        f"output tokens",
    )


@rule(
    "S9",
    "parameters and caches from public configs",
    "02.eagle3_head_70b_gb",
    "02.llama_1b_gb",
    "02.kv_ratio_1b_to_head",
)
def head_memory(claim: Claim, v: Values) -> Finding:
    head, small, cache = v["02.eagle3_head_70b_gb"], v["02.llama_1b_gb"], v["02.kv_ratio_1b_to_head"]
    lighter, smaller_cache = head < small, cache > 1
    verdict = {2: Verdict.REPRODUCED, 1: Verdict.TREND, 0: Verdict.REFUTED}[lighter + smaller_cache]
    return Finding(
        f"weights in bf16: head {head:.2f} GB, Llama-3.2-1B {small:.2f} GB; cache per token of the 1B model over "
        f"the head's: {cache:g}",
        verdict,
        f"the head is {'lighter' if lighter else 'heavier'} in weights and "
        f"{'lighter' if smaller_cache else 'heavier'} in cache",
    )


@rule("S11", "closed form", "02.fp8_gigabytes_per_forward", "02.fp8_forwards_per_second_at_most")
def weights_read(claim: Claim, v: Values) -> Finding:
    gigabytes = v["02.fp8_gigabytes_per_forward"]
    same = near(gigabytes, claim.figures[0], _MODEL)
    return Finding(
        f"{gigabytes:.1f} GB per forward, at most {v['02.fp8_forwards_per_second_at_most']:.0f} forwards a second",
        Verdict.TREND if same else Verdict.REFUTED,
        f"one byte per parameter; {2 * gigabytes:.0f} GB are read in bf16, and GB/s is a rate, not an amount per token",
    )


@rule("S12", "cost model, calibrated on published measurements", "02.batch_1_speedup", "02.batch_1_breakeven")
def batch_one(claim: Claim, v: Values) -> Finding:
    speedup = v["02.batch_1_speedup"]
    return Finding(
        f"{speedup:.2f}x at one user, break-even {v['02.batch_1_breakeven']:.2f}",
        Verdict.REFUTED if speedup > 1 else Verdict.REPRODUCED,
        "with one user the GPU waits for memory, and break-even is at its lowest"
        if speedup > 1
        else "the draft loses even with one user",
    )


@rule("S13", "metrics pages in vLLM's format", "15.named_metric_exists")
def named_metric(claim: Claim, v: Values) -> Finding:
    exists = v["15.named_metric_exists"]
    return Finding(
        "it is there" if exists else "no such name; counters of drafts, drafted and accepted tokens, and of positions",
        Verdict.REPRODUCED if exists else Verdict.REFUTED,
        "read from the page"
        if exists
        else "alpha comes from two scrapes of the counters, one subtracted from the other",
    )


@rule(
    "E7",
    "cost model; no blind test: the acceptance length is assumed, the overheads were chosen after seeing the points",
    "02.kimi_gb200_c1",
    "02.kimi_gb200_c4",
    "02.kimi_gb200_c16",
)
def speed_per_user(claim: Claim, v: Values) -> Finding:
    found = [v[f"02.kimi_gb200_c{users}"] for users in (1, 4, 16)]
    errors = [value / published - 1 for value, published in zip(found, claim.figures, strict=True)]
    met = all(abs(error) <= _MODEL for error in errors)
    falls = found == sorted(found, reverse=True)
    return Finding(
        ", ".join(f"{value:.2f}x" for value in found),
        Verdict.REPRODUCED if met else Verdict.TREND if falls else Verdict.NOT,
        f"predicted, not measured: off by {', '.join(f'{error:+.0%}' for error in errors)}",
    )
