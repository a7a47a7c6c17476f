"""The stages of a plan up to the verdict: what is known, what to measure, how to start the arms, the load test, the
gate, and the batch -> K map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..sim.acceptance import acceptance_length
from .benches import number
from .breakeven import speedup_at
from .commands import CONVERSATIONS, NGRAM_LOOKUP_MAX, PROMPTS, REQUESTS_FOR_P99, RUNS, requests_for, rounded_rates
from .inputs import source_of
from .markdown import Stage, code, line, shell, show, table

if TYPE_CHECKING:
    from .planner import Plan


def known(plan: Plan) -> Stage:
    """Stage 0."""
    inputs, evidence = plan.inputs, plan.evidence
    rows: list[tuple[str, object, str]] = [
        ("target", inputs.target, "your input"),
        ("draft", f"{inputs.method}: {inputs.draft_checkpoint or 'no checkpoint needed'}", "your input"),
        ("engine", inputs.engine, inputs.origin("engine")),
        ("GPU", inputs.gpu or "not named", "your input" if inputs.gpu else "missing"),
        ("K, drafted tokens per step", inputs.k, "your input"),
        ("concurrency points", ", ".join(map(str, inputs.concurrency)), "your input"),
        ("context per request, tokens", inputs.context, inputs.origin("context")),
    ]
    if plan.costs.tensor_parallel is not None:
        origin = "your input" if inputs.tensor_parallel else "formula: fewest GPUs (power of 2) that hold the weights"
        rows.append(("tensor parallel", plan.costs.tensor_parallel, origin))
    if plan.costs.fits is not None:
        rows.append(("requests whose KV cache fits", plan.costs.fits, "formula: labsim.sim.memory, datasheet memory"))
    why = evidence.missing or "unknown"
    rows.append(
        ("alpha (accepted/drafted) at K", show(evidence.alpha), evidence.origin if evidence.alpha is not None else why)
    )
    bound = evidence.origin if evidence.alpha_lower is not None else why
    rows.append(("alpha, lower bound", show(evidence.alpha_lower), bound))
    if evidence.survival is not None:
        how = "" if evidence.survival_measured else f" ({_vector_formula(plan)})"
        rows.append(("survival", "/".join(show(s) for s in evidence.survival), evidence.origin + how))
        rows.append(
            (
                "acceptance length",
                show(acceptance_length(evidence.survival), 2),
                f"formula: 1 + sum of survival; {evidence.origin}",
            )
        )
    for name, share in inputs.traffic.items():
        rows.append((f"traffic share of {name}", f"{share:g}", f"your input, share of {inputs.traffic_shares}"))
    for point in plan.points:
        rows.append((f"break-even alpha at concurrency {point.concurrency}", show(point.alpha), point.origin))
    for arm, records in (("baseline", inputs.baseline), ("candidate", inputs.candidate)):
        for record in records:
            rows += _latencies(arm, record)
        if not records:
            rows.append((f"{arm} benchmark", "-", "not measured"))
    body = table(("what", "value", "where from"), rows)
    body += [line(f"- {text}") for text in plan.notes]
    return Stage(0, "known", "What is known, and from where", tuple(body))


def _vector_formula(plan: Plan) -> str:
    """Where the figures of a survival vector come from that is not wholly measured."""
    measured = plan.evidence.measured_k
    if measured is not None and _has_vector(plan):
        return f"formula: the first {measured} measured, then the last conditional acceptance again"
    return "formula: constant conditional acceptance of the same rate"


def _has_vector(plan: Plan) -> bool:
    """Whether the telemetry prints rates per position at all."""
    inputs = plan.inputs
    records = [inputs.acceptance, *inputs.candidate, *inputs.alpha_by.values()]
    return any(getattr(record, "survival", None) for record in records)


def _latencies(arm, record) -> list[tuple[str, object, str]]:
    values = record.bench
    wanted = (
        ("concurrency", values.concurrency),
        ("mean TPOT, ms", values.tpot_mean_ms),
        ("P99 TPOT, ms", values.tpot_p99_ms),
        ("mean ITL, ms", values.itl_mean_ms),
        ("P99 ITL, ms", values.itl_p99_ms),
        ("P99 TTFT, ms", values.ttft_p99_ms),
        ("output tokens/s", values.output_tokens_per_second),
    )
    source = source_of(record)
    return [
        (f"{arm}: {what}", value if isinstance(value, int) else f"{value:.2f}", source)
        for what, value in wanted
        if value is not None
    ]


def measure(plan: Plan) -> Stage:
    """Stage 1."""
    inputs = plan.inputs
    points = ", ".join(map(str, inputs.concurrency))
    body = [
        "Definitions. **TTFT**: request sent until the first token. **TPOT**: "
        "`(latency - TTFT) / (output tokens - 1)`, one value per request. **ITL** as vLLM's client prints it: the gap "
        "between two stream chunks; with speculation a chunk is a step of several tokens, so mean ITL / mean TPOT is "
        "the acceptance length.",
        "",
        f"Prompts. `{PROMPTS}` holds one JSON object per line with the keys `prompt` and `output_tokens`, sampled "
        "from your own traffic in its own proportions. Random tokens and public sets accept at other rates than your "
        "users' text, and output length decides how many requests are slow.",
    ]
    if inputs.engine == "sglang":
        body.append(
            f"SGLang's client wants another form: `{CONVERSATIONS}`, one JSON object per line with `conversations`, a "
            "user turn and the recorded answer."
        )
    if inputs.traffic:
        mix = ", ".join(f"{name} {share:g}" for name, share in inputs.traffic.items())
        body.append(f"Mix, as shares of {inputs.traffic_shares}: {mix} [your input].")
    body += [
        "",
        f"Points. Concurrency {points} [your input], the same prompts, lengths, sampling and server flags in both "
        "arms. Restart the server between the arms (a warm prefix cache flatters the second), and throw the first "
        "run away (compilation, graph capture).",
        f"At least {REQUESTS_FOR_P99} requests a run [formula: 10 requests above the 99th percentile], and three runs "
        "per arm [rule of thumb]: their spread is the noise, and the value for --tpot-tolerance.",
        *_duration(plan),
    ]
    if inputs.engine == "vllm":
        body.append("The result files carry the draft counts: vLLM's client reads them from the server's /metrics.")
    else:
        body.append(
            "SGLang's own client divides ITL by the tokens per chunk [published: sglang#12064; its native backend "
            "does it too]: take TTFT and TPOT from it, and the chunk gap from vLLM's client, which drives any "
            "OpenAI-style server."
        )
    body.append(
        "One script per arm, one after the other. Each starts its server (stage 2), waits until it answers, measures "
        "every point and stops it. Run 0 is the warm-up [rule of thumb]: delete its files."
    )
    body += [*shell(plan.scripts["baseline"]), "Then the candidate:", *shell(plan.scripts["candidate"])]
    body.append("One point by itself, with the server of its arm running:")
    body += code(*plan.commands.bench_baseline, *plan.commands.bench_candidate)
    body.append(
        "Feed the results back: `labsim plan ... --alpha-from LOG --baseline-bench FILE --candidate-bench FILE`; "
        "`labsim alpha FILE` shows what one file says."
    )
    return Stage(1, "measure", "Measure first", tuple(body))


def _duration(plan: Plan) -> list[str]:
    """How long an arm's script runs, where a plain step's time is known at every point."""
    inputs, seconds, sources = plan.inputs, 0.0, []
    measured = {p.concurrency: (number(p.baseline.tpot_mean_ms), p.baseline_file) for p in plan.pairs}
    for point in inputs.concurrency:
        tpot_ms, source = measured.get(point, (None, ""))
        if point in inputs.step_times:
            tpot_ms, source = inputs.step_times[point][0], "your step times"
        if tpot_ms is None and plan.costs.model is not None:
            model = plan.costs.model
            tpot_ms, source = 1e3 * model.step_seconds(point, 0, point * inputs.context), f"cost model: {model.source}"
        if tpot_ms is None:
            return []
        seconds += RUNS * requests_for(point) / point * tpot_ms / 1e3
        sources.append(source)
    said = f"[formula: TPOT x tokens x requests / concurrency; TPOT from {', '.join(dict.fromkeys(sources))}]"
    lengths = inputs.output_tokens_by
    tokens = sum(inputs.traffic[n] * lengths[n] for n in lengths) / sum(inputs.traffic.values()) if lengths else None
    if tokens is not None and inputs.traffic_shares == "requests":
        return [
            line(f"The baseline's script runs for about {seconds * tokens / 3600:.1f} h {said}, prefill not counted.")
        ]
    per = (
        f"The baseline's script runs for about {seconds * 100 / 3600:.1f} h for every 100 tokens of mean answer length"
    )
    return [line(f"{per} {said}, prefill not counted.")]


def serve(plan: Plan) -> Stage:
    """Stage 2."""
    inputs = plan.inputs
    body = [
        "The scripts of stage 1 start these by themselves. The baseline. Speculation is opt-in: without the flag there "
        "is none."
    ]
    body += code(plan.commands.baseline)
    body.append("The candidate: the same server, and nothing else changed.")
    body += code(plan.commands.candidate)
    if inputs.engine == "vllm":
        body.append(
            "Keys of `--speculative-config` as in `vllm.config.SpeculativeConfig` [published: vLLM 0.20 to 0.28]."
        )
        if inputs.method == "ngram":
            body.append(
                f"prompt_lookup_max {NGRAM_LOOKUP_MAX} is the documentation's example [published: vLLM n_gram page]."
            )
    else:
        verified = inputs.k + 1
        body.append(
            f"A chain: top-k 1, and {verified} verified tokens are K + 1 [formula; published: SGLang documentation]. "
            "Set all `--speculative-*` values or none: left out, SGLang picks a tree."
        )
    return Stage(2, "serve", "Start both arms", tuple(body))


def load_test(plan: Plan) -> Stage:
    """Stage 3."""
    evidence, forced = plan.evidence, plan.commands.forced_acceptance
    title = "Load test with forced acceptance, before a head is trusted"
    if forced is None:
        return Stage(
            3,
            "load-test",
            title,
            (
                "Nothing to force yet: there is no measured survival vector. Measure it (stage 1), then run this "
                "command again; a made-up vector would test a made-up service.",
            ),
        )
    vector = "/".join(f"{s:g}" for s in rounded_rates(evidence.survival))
    how = "measured" if evidence.survival_measured else _vector_formula(plan)
    body = [
        line(
            f"The survival vector {vector} [{how}: {evidence.origin}] is forced, so that the cost of serving is "
            "tested apart from the quality of the head. Outputs are meaningless in this mode: never expose it to "
            "users."
        )
    ]
    body += code(forced)
    if plan.inputs.engine == "vllm":
        body += [
            "`synthetic_acceptance_rates` is the survival vector itself, P(at least i accepted); vLLM turns it into "
            "conditional rates [published: vLLM PR #40662, from 0.20]. Do not use `synthetic_acceptance_length`: the "
            "same mean with the least possible variance, so the tails come out far too smooth.",
        ]
    else:
        body += [
            line(
                f"SGLang takes a mean only (acceptance length {acceptance_length(evidence.survival):.4g} [formula: 1 "
                f"+ sum of survival; {evidence.origin}]): each step accepts one of the two whole numbers around it, "
                "so the mean is right and the tails are far too smooth. Judge throughput by this test, never P99."
            ),
        ]
    body.append(
        "Run the candidate's benchmarks of stage 1 against it, and watch memory, preemptions and the chunk gap."
    )
    return Stage(3, "load-test", title, tuple(body))


def gate(plan: Plan) -> Stage:
    """Stage 4."""
    inputs = plan.inputs
    words = {True: "pass", False: "FAIL", None: "no data"}
    rows = [
        (
            g.name,
            f"{show(g.value)} {g.unit}".strip(),
            f"{g.better} {show(g.limit)} {g.unit}".strip(),
            words[g.passed],
            g.source,
            g.limit_source or "-",
            g.reason or "",
        )
        for g in plan.gates
    ]
    body = [f"Verdict: **{plan.verdict}**. Rule for alpha: `{inputs.rule}` [{inputs.origin('rule')}]."]
    body += table(("gate", "value", "limit", "result", "value from", "limit from", "why"), rows)
    body += [
        "alpha is accepted/drafted, and its LOWER confidence bound is compared. P99 TPOT is per request: the slow "
        "requests pay every step and gain little, which a mean hides. The stall limit is absolute: P99 ITL with and "
        "without speculation must not be divided by one another.",
        "",
        f"Inputs of the gate: policy {inputs.policy:g} [{inputs.origin('policy')}], margin {inputs.margin:g} "
        f"[{inputs.origin('margin')}], stall limit {inputs.stall_limit_ms:g} ms [{inputs.origin('stall_limit_ms')}], "
        f"TPOT tolerance {inputs.tpot_tolerance:g} [{inputs.origin('tpot_tolerance')}], TTFT tolerance "
        f"{inputs.ttft_tolerance:g} [{inputs.origin('ttft_tolerance')}]. The margin covers an error of "
        f"{inputs.margin * inputs.k:.2f} in R [formula: margin x K]; the cost model is within about 6 % of published "
        "runs [published: SpecDecode-Bench, arXiv 2601.11580].",
    ]
    if plan.disagreement:
        body += ["", *(line(text) for text in plan.disagreement)]
    return Stage(4, "gate", "The gate", tuple(body))


def batch_to_k(plan: Plan) -> Stage:
    """Stage 5."""
    inputs, evidence = plan.inputs, plan.evidence
    title = "Draft length by batch size"
    rows = []
    for point in plan.points:
        gain = None
        if evidence.survival is not None and point.step_ratio is not None:
            gain = speedup_at(evidence.survival, point.step_ratio)
        rows.append((point.concurrency, show(point.step_ratio, 2), show(point.alpha), show(gain, 2), point.origin))
    head = ("concurrency", f"step ratio R at K={inputs.k}", "break-even alpha", "predicted speedup", "where from")
    body = table(head, rows)
    if not plan.k_map:
        lacking = plan.costs.reason if plan.costs.model is None else "no measured survival vector"
        body.append(line(f"No map from batch to K: {lacking}."))
        return Stage(5, "batch-to-k", title, tuple(body))
    origin = f"{plan.costs.model.source}; survival: {evidence.origin}"
    body.append("The K with the highest predicted speedup, at each batch size up to the largest concurrency:")
    body += table(("batch from", "to", "K", "where from"), [(*run, origin) for run in plan.k_map])
    body.append(
        "A shorter K re-uses the first positions of the measured vector. The map follows the estimate, not the lower "
        "bound, and a model: measure each K at the ends of its range before you trust it."
    )
    if plan.commands.dynamic_k is not None and len(plan.k_map) > 1:
        body += code(plan.commands.dynamic_k)
    if inputs.engine == "vllm":
        body.append(
            "`num_speculative_tokens_per_batch_size` takes `[first, last, K]` [published: vLLM PR #32374]. Not with "
            "data parallelism; full CUDA graphs need model runner V2, the older one has piecewise graphs only; "
            "crossing into K=0 collapsed throughput from 232 to 24-157 tok/s in one report [published: vllm#49548]: "
            "let the smallest K be 1 [rule of thumb] until you have measured the crossing."
        )
    else:
        body.append(
            "SGLang has no static map; `--speculative-adaptive` follows acceptance with hysteresis [published: "
            "sglang#21599]. Otherwise run separate replicas per range of load."
        )
    return Stage(5, "batch-to-k", title, tuple(body))
