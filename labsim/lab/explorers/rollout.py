"""Explorer of notebook 15: change the traffic mix and see the verdict flip."""

from __future__ import annotations

from functools import cache

from ... import rollout, telemetry
from ..explorer import Explorer, Frame, Series, Slider, explore
from ..tables import DATA

SHARES = tuple(i / 10 for i in range(11))
LOGS = DATA / "telemetry"


def traffic_mix() -> Explorer:
    """Lower bound of alpha and its limit over the share of code; sliders for share, concurrency and the ruling limit.

    Chat and code are two measured logs; every point is a whole `rollout.plan`. The verdict shown is alpha's: latency
    has to be measured at each concurrency by itself.
    """
    return explore(
        _frame,
        {
            "code": Slider("share of code", SHARES, value=0.3),
            "concurrency": Slider("concurrency", (1, 32, 128, 256), value=128, unit="requests"),
            "rule": Slider("what governs", ("breakeven", "policy", "both")),
        },
        title="Go or no-go?",
        x_label="share of code in the output tokens",
        y_label="alpha (accepted/drafted)",
        y_range=(0.0, 0.7),
    )


def _frame(code: float, concurrency: int, rule: str) -> Frame:
    plans = [_plan(share, concurrency, rule) for share in SHARES]
    gates = [next(gate for gate in one.gates if gate.name == "alpha") for one in plans]
    chosen = SHARES.index(code)
    gate = gates[chosen]
    verdict = {True: "go", False: "no-go", None: "measure-first"}[gate.passed]
    text = (
        f"{code:.0%} code at concurrency {concurrency}: alpha at least {gate.value:.3f}, limit {gate.limit:.3f} "
        f"({rule}): {verdict}."
    )
    return Frame(
        [
            Series("alpha, lower bound", SHARES, [one.value for one in gates]),
            Series("limit", SHARES, [one.limit for one in gates]),
            Series(f"this mix: {verdict}", [code], [gate.value], kind="points"),
        ],
        text=text,
        alt=f"Alpha falls with the share of code towards a level limit. {text}",
    )


@cache
def _records() -> tuple[telemetry.AcceptanceRecord, ...]:
    chat = telemetry.read([LOGS / "vllm_steady.log"])
    code = telemetry.read([LOGS / "vllm_before.prom", LOGS / "vllm_after.prom"])
    benches = (rollout.benchmark(LOGS / f"bench_{arm}.txt") for arm in ("baseline", "candidate"))
    return chat, code, *benches


@cache
def _plan(share: float, concurrency: int, rule: str) -> rollout.Plan:
    chat, code, baseline, candidate = _records()
    return rollout.plan(
        rollout.PlanInput(
            target="meta-llama/Llama-3.1-8B-Instruct",
            draft_checkpoint="org/head",
            gpu="h100",
            k=3,
            concurrency=(concurrency,),
            context=400,
            traffic={"chat": 1 - share, "code": share},
            alpha_by={"chat": chat, "code": code},
            baseline=baseline,
            candidate=candidate,
            rule=rule,
        )
    )
