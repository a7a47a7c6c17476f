"""From inputs to a staged plan: `plan(PlanInput(...)) -> Plan`.

The plan holds the gate's verdict ("go", "no-go", "measure-first"), the gates with the origin of every number, nine
stages in Markdown, and the command lines. Without measurements it plans the measuring; it never fills a gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import stages, stages_live
from .benches import BenchPair, pair_up
from .breakeven import BreakEvenPoint, Costs, batch_to_k, break_even_points, find_costs
from .commands import Commands, all_commands, script
from .evidence import Evidence, gather
from .findings import policy_against_breakeven, remarks
from .gate import AlphaLimit, Gate, alpha_gate, alpha_limit, bench_gates, only_the_policy, verdict, verdict_at
from .inputs import PlanInput, source_of
from .markdown import Stage, line


@dataclass(frozen=True)
class Plan:
    """A rollout plan. `verdict` is for all operating points together, `verdict_at` for each one. `disagreement` says
    where the policy alone would decide otherwise than break-even, `by_policy` that alpha fails by the policy alone.
    """

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
    verdict_at: Mapping[int, str]
    by_policy: bool

    @property
    def decided_by(self) -> str:
        """What the verdict rests on, in a few words: the gates that fail or lack data, the operating points at which
        it is another one, and which part of the telemetry counts. Empty if there is nothing to add."""
        failed = [gate.name for gate in self.gates if gate.passed is False]
        lacking = [gate.name for gate in self.gates if gate.passed is None and not gate.name.startswith("latency at ")]
        said = [f"{'; '.join(failed)} failed"] if failed else [f"no data for {', '.join(lacking)}"] if lacking else []
        if self.by_policy:
            said[0] += f", alpha by the policy of {self.inputs.policy:g} alone: break-even plus margin passes, "
            said[0] += "--rule breakeven"
        unmeasured = any(gate.name.startswith("latency at ") for gate in self.gates)
        if len(set(self.verdict_at.values())) > 1 or (unmeasured and self.verdict != "no-go"):
            said.append("; ".join(self._points()))
        if self.evidence.caution:
            said.append(self.evidence.caution)
        return "; ".join(said)

    def _points(self) -> list[str]:
        """ "go at 1, 8", "128: measure first"."""
        words = {"go": "go at {}", "no-go": "no-go at {}", "measure-first": "{}: measure first"}
        said = []
        for word, form in words.items():
            points = [str(point) for point, found in self.verdict_at.items() if found == word]
            if points:
                said.append(form.format(", ".join(points)))
        return said

    @property
    def scripts(self) -> dict[str, str]:
        """One shell script per arm: starts the server, waits for it, measures every point four times, stops it."""
        return {arm: script(self.inputs, arm, getattr(self.commands, arm)) for arm in ("baseline", "candidate")}

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
            "verdict_at": {str(point): word for point, word in self.verdict_at.items()},
            "decided_by": self.decided_by,
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
            "scripts": self.scripts,
            "notes": [line(text) for text in (*self.disagreement, *self.notes)],
            "files": list(self.files),
        }

    def to_markdown(self) -> str:
        """The whole plan as one Markdown document."""
        inputs = self.inputs
        title = f"# Rollout of speculative decoding: {inputs.target}"
        why = f" ({self.decided_by}) [{self.evidence.origin}; your input; gates below]" if self.decided_by else ""
        lines = [title, "", line(f"**Verdict: {self.verdict}**{why}"), ""]
        lines += [*(line(f"- {text}") for text in self._why()), ""]
        lines += [
            "Every number names its origin in square brackets or in the table's column; a dash is a number that "
            "nobody has measured yet.",
            "",
        ]
        for stage in self.stages:
            lines += [f"## {stage.number}. {stage.title}", "", *stage.body, ""]
        return "\n".join(_with_short_names(_squeezed(lines), self.files)).rstrip() + "\n"

    def _why(self) -> list[str]:
        words = {True: "passes", False: "FAILS", None: "has no verdict"}
        said = []
        for gate in self.gates:
            reason = f": {gate.reason}" if gate.reason else ""
            said.append(f"`{gate.name}` {words[gate.passed]}{reason} [{gate.source}]")
        if self.policy_alone and self.inputs.rule != "breakeven":
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
    by_point = verdict_at(gates, evidence, points, inputs)
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
        verdict_at=by_point,
        by_policy=only_the_policy(gates, evidence, limit, inputs),
    )


def _with_short_names(lines: list[str], files: Sequence[str]) -> list[str]:
    """The document with files of an absolute path named by their last part, and their folders told once at the top.

    Where two files share a name, all paths stay.
    """
    names = [Path(file).name for file in files]
    folders = sorted({str(Path(file).parent) for file in files if Path(file).is_absolute()}, key=len, reverse=True)
    if not folders or len(set(names)) < len(names):
        return lines
    shortened, in_code = [], False
    for text in lines:
        in_code ^= text.startswith("```")
        for file, name in zip(files, names, strict=True):
            if not in_code and Path(file).is_absolute():
                text = text.replace(file, name)
        shortened.append(text)
    told = " and ".join(f"`{folder}`" for folder in folders)
    return [*shortened[:2], f"Measured files lie in {told}.", "", *shortened[2:]]


def _squeezed(lines: list[str]) -> list[str]:
    """No two empty lines in a row."""
    flat = [part for text in lines for part in text.split("\n")]
    return [text for i, text in enumerate(flat) if text or i == 0 or flat[i - 1]]


__all__ = ["Plan", "PlanInput", "plan", "source_of"]
