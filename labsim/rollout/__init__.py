"""From telemetry and two benchmarks to a staged rollout plan.

from labsim import rollout, telemetry

made = rollout.plan(rollout.PlanInput(
    target="meta-llama/Llama-3.3-70B-Instruct", draft_checkpoint="org/head", gpu="h100", k=3,
    concurrency=(1, 32, 128), acceptance=telemetry.read("engine.log"),
    baseline=rollout.benchmark("base.json"), candidate=rollout.benchmark("spec.json"),
))
made.verdict, made.gates, made.to_markdown(), made.to_dict()
"""

from .gate import Gate
from .inputs import PlanInput
from .planner import Plan, plan
from .reading import benchmark

__all__ = ["Gate", "Plan", "PlanInput", "benchmark", "plan"]
