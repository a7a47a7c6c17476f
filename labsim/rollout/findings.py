"""What an engineer should be told beside the gate: where two rules disagree, what does not fit, what was assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .benches import BenchPair
from .breakeven import BreakEvenPoint, Costs
from .evidence import Evidence
from .inputs import PlanInput, source_of


@dataclass(frozen=True)
class Published:
    """A published head, with its accepted/drafted rate at K and its measured speedup."""

    what: str
    k: int
    alpha: float
    speedup: float
    source: str

    def __str__(self) -> str:
        return f"{self.what}, K={self.k}: alpha {self.alpha:.2f}, {self.speedup:.2f}x [published: {self.source}]"


# Heads that a policy of 0.55 rejects although they win.
WINNERS_BELOW_POLICY = (
    Published(
        "EAGLE on Llama-3.1-8B, batch 1",
        3,
        0.46,
        1.73,
        "SpecDecode-Bench, arXiv 2601.11580 (alpha from its GSM8K acceptance records)",
    ),
    Published("Qwen3-32B speculator, RTX Pro 6000, batch 1", 3, 0.338, 1.82, "user benchmark, vLLM 0.11.0"),
    Published("EAGLE-3 on Llama-3.3-70B, 8 x H200, batch 4", 3, 0.28, 1.26, "TensorRT-LLM PR #5146"),
    Published("EAGLE-3 on an 8B model, concurrency 8", 1, 0.370, 1.20, "user benchmark, vllm bench serve"),
)


def policy_against_breakeven(
    evidence: Evidence, points: Sequence[BreakEvenPoint], inputs: PlanInput
) -> tuple[str | None, tuple[str, ...]]:
    """("rejects a winner" | "accepts a loser" | None, lines): whether the policy alone would decide otherwise than
    break-even plus margin, at all or some of the operating points.
    """
    lower = evidence.alpha_lower
    known = [point for point in points if point.alpha is not None]
    if lower is None or not known:
        return None, ()
    clears = [p for p in known if lower >= max(0.0, p.alpha) + inputs.margin]
    at = ", ".join(str(p.concurrency) for p in clears)
    way_out = "" if inputs.rule == "breakeven" else " `--rule breakeven` lets break-even govern."
    governed = f" The rule in force is `{inputs.rule}` [{inputs.origin('rule')}]."
    if lower < inputs.policy and clears:
        gains = "; ".join(
            f"{(1 + inputs.k * lower) / p.step_ratio:.2f}x at concurrency {p.concurrency}" for p in clears
        )
        lines = [
            f"The policy alone (alpha at least {inputs.policy:g} [{inputs.origin('policy')}]) rejects this draft, "
            f"whose lower bound is {lower:.3f} [{evidence.origin}], although break-even plus margin says that it wins "
            f"at concurrency {at}: predicted speedup even at that bound {gains} [formula: (1 + K alpha)/R].{governed}"
            f"{way_out}"
        ]
        lines.append("Published heads that win with a lower alpha than 0.55 [published]: ")
        lines += [f"- {entry}" for entry in WINNERS_BELOW_POLICY]
        return "rejects a winner", tuple(lines)
    losing = [p for p in known if p not in clears]
    if lower >= inputs.policy and losing:
        where = ", ".join(str(p.concurrency) for p in losing)
        return "accepts a loser", (
            f"The policy alone (alpha at least {inputs.policy:g} [{inputs.origin('policy')}]) accepts this draft, "
            f"although its lower bound {lower:.3f} [{evidence.origin}] misses break-even plus margin at concurrency "
            f"{where} [{losing[0].origin}].{governed}",
        )
    return None, ()


def remarks(
    evidence: Evidence,
    points: Sequence[BreakEvenPoint],
    pairs: Sequence[BenchPair],
    costs: Costs,
    inputs: PlanInput,
) -> tuple[str, ...]:
    """Everything else worth knowing, one sentence each, with origins."""
    said = [f"{note} [{evidence.origin}]" for note in evidence.notes]
    for record in (inputs.acceptance, *inputs.baseline, *inputs.candidate):
        if record is not None:
            said += [f"{warning} [{source_of(record)}]" for warning in record.warnings]
    said += [f"{note} [{pair.both}]" for pair in pairs for note in pair.notes]
    if costs.fits is not None and costs.fits < max(inputs.concurrency):
        said.append(
            f"The KV cache of {costs.fits} requests of {inputs.context} tokens fits on {costs.tensor_parallel} x "
            f"{inputs.gpu}; beyond that they queue, and {max(inputs.concurrency)} never decode together [formula: "
            "memory]."
        )
    lost = [p for p in points if p.alpha is not None and p.alpha > 1]
    said += [
        f"At concurrency {p.concurrency} no draft can win: break-even is {p.alpha:.2f}, above 1 [{p.origin}]."
        for p in lost
    ]
    said += _cross_checks(evidence, points, pairs, inputs)
    return tuple(dict.fromkeys(said))


def _use_the_measurement(pair: BenchPair, model: BreakEvenPoint | None, inputs: PlanInput) -> str:
    """How to put a measured step ratio in the cost model's place, and whether the margin covers their difference."""
    if model is None or pair.concurrency in inputs.step_times or not model.origin.startswith("cost model"):
        return ""
    off = pair.step_ratio / model.step_ratio - 1
    covered = inputs.margin * inputs.k / model.step_ratio
    times = f"{pair.concurrency}={pair.baseline.itl_mean_ms:.2f},{pair.candidate.itl_mean_ms:.2f}"
    enough = "less than the margin covers" if off <= covered else "more than the margin covers"
    return (
        f" `--step-times {times}` puts the measurement in: the model's R {model.step_ratio:.2f} is "
        f"{abs(off):.0%} {'below' if off > 0 else 'above'} it, {enough} ({covered:.0%}) "
        f"[{model.origin}; formula: margin x K / R]."
    )


def _cross_checks(
    evidence: Evidence, points: Sequence[BreakEvenPoint], pairs: Sequence[BenchPair], inputs: PlanInput
) -> list[str]:
    said = []
    for pair in pairs:
        if pair.speedup is not None:
            said.append(
                f"Measured at concurrency {pair.concurrency or 'unstated'}: mean TPOT "
                f"{pair.baseline.tpot_mean_ms:.2f} -> {pair.candidate.tpot_mean_ms:.2f} ms, a speedup of "
                f"{pair.speedup:.2f}x [{pair.both}]."
            )
        if pair.step_ratio is not None and pair.k in (None, inputs.k):
            measured = (pair.step_ratio - 1) / inputs.k
            model = next((p for p in points if p.concurrency == pair.concurrency and p.alpha is not None), None)
            beside = f", where the plan uses {model.alpha:.3f} [{model.origin}]" if model else ""
            said.append(
                f"Measured step ratio R = {pair.step_ratio:.2f} (ratio of the mean ITL, each a step), so break-even "
                f"at concurrency {pair.concurrency or 'unstated'} is {measured:.3f} [{pair.both}]{beside}."
                + _use_the_measurement(pair, model, inputs)
            )
    for record in inputs.candidate:
        if inputs.acceptance is None or record.alpha_interval is None or inputs.acceptance.alpha_interval is None:
            continue
        if record.unpooled is not None or inputs.acceptance.unpooled is not None:
            continue
        (low, high), (low2, high2) = record.alpha_interval, inputs.acceptance.alpha_interval
        if record.k == inputs.acceptance.k and (high < low2 or high2 < low):
            said.append(
                f"The benchmark's prompts accept {record.alpha:.3f} [{source_of(record)}], the service "
                f"{inputs.acceptance.alpha:.3f} [{source_of(inputs.acceptance)}]: the benchmark is not your traffic."
            )
    return said
