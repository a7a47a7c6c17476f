"""From inputs to a staged plan: `plan(PlanInput(...)) -> Plan`.

The plan holds the gate's verdict ("go", "no-go", "measure-first"), the gates with the origin of every number, nine
stages in Markdown, and the command lines. Without measurements it plans the measuring; it never fills a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import stages, stages_live
from .benches import BenchPair, pair_up
from .breakeven import BreakEvenPoint, Costs, batch_to_k, break_even_points, find_costs
from .commands import Commands, all_commands
from .evidence import Evidence, gather
from .findings import policy_against_breakeven, remarks
from .gate import AlphaLimit, Gate, alpha_gate, alpha_limit, bench_gates, verdict
from .inputs import PlanInput, source_of
from .markdown import Stage, line


@dataclass(frozen=True)
class Plan:
    """A rollout plan. `disagreement` says where the policy alone would decide otherwise than break-even."""

    inputs: PlanInput
    verdict: str
    evidence: Evidence
    points: tuple[BreakEvenPoint, ...]
    pairs: tuple[BenchPair, ...]
    costs: Costs
    limit: AlphaLimit
    gates: tuple[Gate, ...]
    commands: Commands
    k_map: tuple[tuple[int, int, int], ...]
    notes: tuple[str, ...]
    policy_alone: str | None
    disagreement: tuple[str, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The nine stages."""
        makers = (
            stages.known,
            stages.measure,
            stages.serve,
            stages.load_test,
            stages.gate,
            stages.batch_to_k,
            stages_live.canary,
            stages_live.watch,
            stages_live.low_alpha,
        )
        return tuple(make(self) for make in makers)

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that a figure of the plan comes from."""
        inputs = self.inputs
        records = [inputs.acceptance, *inputs.baseline, *inputs.candidate]
        records += [value for value in inputs.alpha_by.values() if not isinstance(value, int | float)]
        return tuple(dict.fromkeys(f for record in records if record is not None for f in record.files))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready. `breakeven` maps each concurrency, as a string, to its alpha or None."""
        return {
            "verdict": self.verdict,
            "rule": self.inputs.rule,
            "k": self.inputs.k,
            "alpha": self.evidence.alpha,
            "alpha_lower": self.evidence.alpha_lower,
            "alpha_kind": "accepted/drafted",
            "policy": self.inputs.policy,
            "margin": self.inputs.margin,
            "breakeven": {str(point.concurrency): point.alpha for point in self.points},
            "gates": [gate.to_dict() for gate in self.gates],
            "policy_alone": self.policy_alone,
            "batch_to_k": [list(run) for run in self.k_map],
            "stages": [stage.to_dict() for stage in self.stages],
            "commands": self.commands.to_dict(),
            "notes": [line(text) for text in (*self.disagreement, *self.notes)],
            "files": list(self.files),
        }

    def to_markdown(self) -> str:
        """The whole plan as one Markdown document."""
        inputs = self.inputs
        title = f"# Rollout of speculative decoding: {inputs.target}"
        lines = [title, "", f"**Verdict: {self.verdict}**", "", *(line(f"- {text}") for text in self._why()), ""]
        lines += [
            "Every number names its origin in square brackets or in the table's column; a dash is a number that "
            "nobody has measured yet.",
            "",
        ]
        for stage in self.stages:
            lines += [f"## {stage.number}. {stage.title}", "", *stage.body, ""]
        return "\n".join(_squeezed(lines)).rstrip() + "\n"

    def _why(self) -> list[str]:
        words = {True: "passes", False: "FAILS", None: "has no verdict"}
        said = []
        for gate in self.gates:
            reason = f": {gate.reason}" if gate.reason else ""
            said.append(f"`{gate.name}` {words[gate.passed]}{reason} [{gate.source}]")
        if self.policy_alone:
            said.append(f"The policy alone {self.policy_alone}: see stage 4 [{self.evidence.origin}].")
        return said


def plan(inputs: PlanInput) -> Plan:
    """Judge `inputs` and lay out the rollout. ValueError for benchmarks that must not be compared."""
    pairs = pair_up(inputs.baseline, inputs.candidate)
    evidence = gather(inputs)
    costs = find_costs(inputs)
    points = break_even_points(inputs, costs, pairs)
    limit = alpha_limit(points, inputs.rule, inputs.policy, inputs.margin)
    gates = (alpha_gate(evidence, limit), *bench_gates(pairs, inputs))
    runs = batch_to_k(inputs, costs, evidence.survival)
    policy_alone, disagreement = policy_against_breakeven(evidence, points, inputs)
    return Plan(
        inputs=inputs,
        verdict=verdict(gates),
        evidence=evidence,
        points=points,
        pairs=pairs,
        costs=costs,
        limit=limit,
        gates=gates,
        commands=all_commands(inputs, costs.tensor_parallel, evidence.survival, runs),
        k_map=runs,
        notes=remarks(evidence, points, pairs, costs, inputs),
        policy_alone=policy_alone,
        disagreement=disagreement,
    )


def _squeezed(lines: list[str]) -> list[str]:
    """No two empty lines in a row."""
    flat = [part for text in lines for part in text.split("\n")]
    return [text for i, text in enumerate(flat) if text or i == 0 or flat[i - 1]]


__all__ = ["Plan", "PlanInput", "plan", "source_of"]
