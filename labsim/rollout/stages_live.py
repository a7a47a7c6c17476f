"""The stages of a plan after the verdict: canary with rollback limits, what to watch, and what to do about a low alpha.

Every rollback limit is a figure of the baseline's own benchmark times a stated tolerance, or an absolute input.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from ..sim.acceptance import convert_survival, draft_acceptance_rate
from ..sim.cost import break_even
from ..sim.intervals import draft_acceptance_interval
from ..telemetry.assemble import FEW_DRAFTS
from .benches import number
from .commands import REQUESTS_FOR_P99
from .inputs import source_of
from .markdown import Stage, code, line, show, table

if TYPE_CHECKING:
    from .planner import Plan

CANARY_SHARES = (1, 5, 25, 100)
RUNNING = {"vllm": "vllm:num_requests_running", "sglang": "sglang:num_running_reqs"}
MOST_DRAFTS = 10_000_000
# Below this a canary has seen a handful of requests, whatever the formula says.
FEWEST_TO_DECIDE = 1000


def drafts_to_decide(survival: tuple[float, ...], limit: float) -> int | None:
    """Fewest drafts after which the lower bound of alpha lies at or above `limit`; None if the estimate itself does not
    exceed it (or hardly: more than ten million drafts).
    """
    if draft_acceptance_rate(survival) <= limit or draft_acceptance_interval(survival, MOST_DRAFTS).low < limit:
        return None
    low, high = 1, MOST_DRAFTS
    while low < high:
        middle = (low + high) // 2
        if draft_acceptance_interval(survival, middle).low >= limit:
            high = middle
        else:
            low = middle + 1
    return low


def drafts_of_a_canary(plan: Plan) -> int | None:
    """The same for real traffic, whose steps resemble one another: scattered as much more as the telemetry shows."""
    evidence, limit = plan.evidence, plan.limit.value
    if evidence.survival is None or limit is None:
        return None
    drafts = drafts_to_decide(evidence.survival, limit)
    return None if drafts is None else max(FEWEST_TO_DECIDE, ceil(drafts * evidence.design_effect))


def canary(plan: Plan) -> Stage:
    """Stage 6."""
    limit = plan.limit
    shares = ", ".join(f"{share} %" for share in CANARY_SHARES)
    body = []
    if plan.verdict != "go":
        body.append(f"Not yet: the verdict is **{plan.verdict}**. The limits below stand ready.")
    body.append(
        f"Traffic shares {shares} [default]. Stay at each until it has at least {REQUESTS_FOR_P99} requests [formula: "
        "10 above the 99th percentile] and has seen your busiest hour."
    )
    survival = plan.evidence.survival
    if survival is not None and limit.value is not None:
        drafts = drafts_of_a_canary(plan)
        if drafts is not None:
            body.append(
                line(
                    f"Alpha is decided after {drafts} drafts at the earliest, from as many requests as above: steps of "
                    "one request resemble one another [formula: lower bound at or above "
                    f"{limit.value:.3f}, times {plan.evidence.design_effect:.1f} for the scatter between windows, at "
                    f"least {FEWEST_TO_DECIDE}; survival from {plan.evidence.origin}]."
                )
            )
        else:
            body.append(
                line(
                    f"No number of drafts lifts the lower bound above {limit.value:.3f} [{limit.source}]: the "
                    f"estimate {show(plan.evidence.alpha)} [{plan.evidence.origin}] is too low or too near."
                )
            )
    body.append(
        "Roll back (restart without the speculation flag: the baseline's command) when one of these holds for a step:"
    )
    body += table(("signal", "roll back when", "where from"), _limits(plan))
    body.append(
        "Compare the canary with baseline replicas of the same hour, at the same concurrency: load moves every one "
        "of these."
    )
    return Stage(6, "canary", "Canary and rollback", tuple(body))


def _limits(plan: Plan) -> list[tuple[str, str, str]]:
    inputs, limit = plan.inputs, plan.limit
    rows = []
    for record in inputs.baseline:
        where = source_of(record)
        at = _while_running(record.bench.concurrency, inputs.engine)
        for what, value, tolerance in (
            ("TPOT", number(record.bench.tpot_p99_ms), inputs.tpot_tolerance),
            ("TTFT", number(record.bench.ttft_p99_ms), inputs.ttft_tolerance),
        ):
            if value is None:
                rows.append((f"P99 {what}{at}", "unknown", f"{where} holds no P99 {what}"))
                continue
            how = f"{value:.2f} ms in {where} x {1 + tolerance:g}"
            rows.append((f"P99 {what}{at}", f"above {value * (1 + tolerance):.2f} ms", how))
    if not inputs.baseline:
        missing = "not measured: your baseline benchmark's P99 times the tolerance"
        rows += [("P99 TPOT", "unknown", missing), ("P99 TTFT", "unknown", missing)]
    rows.append(
        ("P99 chunk gap", f"above {inputs.stall_limit_ms:g} ms", f"absolute, {inputs.origin('stall_limit_ms')}")
    )
    if limit.value is None:
        rows.append(("lower bound of alpha", "unknown", limit.source))
    else:
        rows.append(("lower bound of alpha", f"below {limit.value:.3f}", limit.source))
    rows.append(("errors, preemptions, out of memory", "more than on the baseline replicas", "same hour, same load"))
    return rows


def _while_running(concurrency: int | None, engine: str) -> str:
    """When a benchmark's figure may be compared with production, which has no fixed concurrency."""
    if concurrency is None:
        return ""
    return f" while `{RUNNING[engine]}` is about {concurrency}"


def _p99(metric: str) -> str:
    return f"`histogram_quantile(0.99, sum by (le) (rate({metric}_bucket[$w])))`"


def watch(plan: Plan) -> Stage:
    """Stage 7."""
    body = [
        "Three P99s side by side: the **chunk gap** (what a reader sees freeze), the **gap per token** (chunk gap / "
        "tokens in the chunk), and **TPOT per request** (the slowest users). Speculation moves them in different "
        "directions.",
        "",
    ]
    if plan.inputs.engine == "vllm":
        body += [
            "vLLM's counters; take differences between scrapes, never the value, and ignore `_created`:",
            "",
            "- `vllm:spec_decode_num_drafts_total`, `vllm:spec_decode_num_draft_tokens_total`, "
            "`vllm:spec_decode_num_accepted_tokens_total`, "
            "`vllm:spec_decode_num_accepted_tokens_per_pos_total{position=...}`",
            "- alpha: `rate(vllm:spec_decode_num_accepted_tokens_total[$w]) / "
            "rate(vllm:spec_decode_num_draft_tokens_total[$w])`",
            "- acceptance length: one plus accepted per draft; survival: accepted per position over drafts",
            "- the name `spec_decode_metrics.accepted_tokens_per_request` does not exist; per request vLLM has "
            "`--per-request-spec-decode-metrics summary` [published: vLLM 0.27]",
            f"- P99 TPOT, per request: {_p99('vllm:request_time_per_output_token_seconds')}",
            f"- P99 TTFT: {_p99('vllm:time_to_first_token_seconds')}",
            "- `vllm:inter_token_latency_seconds` for the chunk gap (whether it counts steps or tokens differs by "
            "version: check it against a client benchmark)",
            "- load, to read the limits of stage 6 at: `avg_over_time(vllm:num_requests_running[$w])` per replica",
        ]
    else:
        body += [
            "SGLang's metrics (`--enable-metrics`): `sglang:spec_accept_length` and `sglang:spec_accept_rate` are "
            "gauges, the last value only; average many scrapes. Take one rank: every rank repeats them.",
            "- the printed `accept rate` contains the bonus token in some versions: `labsim alpha` infers it from "
            "the numbers",
            "- per request: `meta_info` with `spec_verify_ct` and the accept histogram",
            f"- P99 TTFT: {_p99('sglang:time_to_first_token_seconds')}",
            "- TPOT per request has no histogram of its own in every version: where "
            "`sglang:time_per_output_token_seconds` is missing, take it from the client",
            "- load, to read the limits of stage 6 at: `avg_over_time(sglang:num_running_reqs[$w])` per replica",
        ]
    body += [
        "",
        "Drift: `labsim alpha LOG` per day. Counters are weighted by tokens, so a few long answers can hide a "
        "falling alpha of many short ones. Ignore windows with fewer than "
        f"{FEW_DRAFTS} drafts: their alpha scatters by 0.04 "
        "and more [formula: standard deviation of alpha at K=3 with a variance of 1.45 accepted tokens per step, "
        "published: SpecDecode-Bench records].",
    ]
    return Stage(7, "watch", "What to watch", tuple(body))


def low_alpha(plan: Plan) -> Stage:
    """Stage 8."""
    inputs, evidence = plan.inputs, plan.evidence
    body = [
        "In this order:",
        "",
        "- **Is it the same alpha?** accepted/drafted at the same K, the chat template and sampling that the head "
        "was trained with, outputs no longer than its training context.",
        "- **A domain draft**: continue training the head on your own prompts with the target's own answers. Cheap "
        "next to fine-tuning the target, and it repairs exactly the traffic that fails.",
        "- **A smaller K**: alpha rises, since the deep positions are the ones that fail, and a step gets cheaper. "
        "Break-even is lower in time but must be met per drafted token; compare both columns:",
    ]
    if evidence.survival is not None:
        hardest = max(inputs.concurrency)
        rows = []
        for k in range(1, inputs.k + 1):
            alpha = draft_acceptance_rate(convert_survival(evidence.survival, k))
            even = break_even(plan.costs.model, k, hardest, inputs.context) if plan.costs.model else None
            gain = None if even is None else (1 + k * alpha) / even.step_ratio
            source = plan.costs.model.source if plan.costs.model else plan.costs.reason
            rows.append(
                (k, show(alpha), show(even and even.alpha_breakeven), show(gain, 2), f"{evidence.origin}; {source}")
            )
        head = ("K", "alpha", f"break-even at concurrency {hardest}", "predicted speedup", "where from")
        body += table(head, rows)
    else:
        body += ["", "(no measured survival vector yet: the comparison needs one)", ""]
    if plan.commands.smaller_k is not None:
        body += code(plan.commands.smaller_k)
    body.append(
        "- **N-gram drafting**: no weights, almost no draft time. Right for text that repeats its prompt (code "
        "edits, RAG, summaries); its acceptance is bursty, so watch P99 TPOT."
    )
    body += code(plan.commands.ngram)
    body.append("- **Off.** Plain decoding is a good answer at high load, and the baseline's command is the way back.")
    body += code(plan.commands.baseline)
    return Stage(8, "low-alpha", "When alpha is low", tuple(body))
