"""Explorer of notebook 08: bytes of one training step per rank, by what they are, with the remedies in order.

Every bar is `labsim.train.ttt.memory_peak.peak` of the draft of Llama-3.1-8B. The target's own weights lie on the same
GPU, or elsewhere: its states then come from disk or from an engine. Ranks are computed from the length of a shard.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ...sim.cost import weight_bytes
from ...sim.drafts import EAGLE3_DRAFT_VOCAB, draft_layer
from ...sim.hardware import find_gpu
from ...sim.targets import find_model
from ...train.ttt.memory import DraftShape, StepSetting
from ...train.ttt.memory_peak import peak
from ...train.ttt.memory_remedies import CHUNK, USABLE
from ..explorer import Explorer, Frame, Reference, Series, Slider, explore
from ..memory_lab import grouped

TARGET, GPU = "llama-3.1-8b", "h100"
HERE = "on the same GPU"
LENGTHS = (4096, 16_384, 32_768, 65_536, 131_072, 262_144)
STEPS = (1, 4, 7)
RANKS = (1, 2, 4, 8, 16)
REMEDIES = {
    "as it is": {},
    "chunked logits": {"logit_chunk": CHUNK},
    "and checkpointing": {"logit_chunk": CHUNK, "checkpointing": True},
}
NAMES = {
    "weights": "weights, gradients, moments",
    "target": "target's weights",
    "features": "target's states",
    "teacher": "teacher",
    "logits": "logits",
    "activations": "activations",
}


def draft_of(target: str = TARGET, draft_vocab: int = EAGLE3_DRAFT_VOCAB) -> DraftShape:
    """The EAGLE-3 draft of a target that the simulator knows."""
    model = find_model(target)
    ffn, kv_heads, head_dim = draft_layer(model)
    return DraftShape(
        kind="eagle3",
        hidden=model.hidden,
        target_hidden=model.hidden,
        vocab=model.vocab,
        draft_vocab=draft_vocab,
        features=3,
        heads=model.heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=ffn,
    )


def bytes_per_rank() -> Explorer:
    """Stacked bars in GB. Sliders: length, TTT steps, ranks, draft vocabulary, attention, where the target lies."""
    model, chip = find_model(TARGET), find_gpu(GPU)
    beside = weight_bytes(model, model.dtype)
    usable = USABLE * chip.memory_gb

    @cache
    def steps(length: int, ttt: int, ranks: int, draft_vocab: int, attention: str) -> dict[str, dict[str, float]]:
        setting = StepSetting(positions=length, ttt=ttt, sequence_parallel=ranks, attention=attention)
        shape = draft_of(draft_vocab=draft_vocab)
        return {
            name: grouped(dict(peak(shape, replace(setting, **changed)).parts)) for name, changed in REMEDIES.items()
        }

    def frame(length: int, ttt: int, ranks: int, draft_vocab: int, attention: str, target: str) -> Frame:
        there = {"target": beside if target == HERE else 0.0}
        bars = {name: parts | there for name, parts in steps(length, ttt, ranks, draft_vocab, attention).items()}
        series = [
            Series(label, list(bars), [parts[part] / 1e9 for parts in bars.values()], kind="stack")
            for part, label in NAMES.items()
        ]
        totals = {name: sum(parts.values()) / 1e9 for name, parts in bars.items()}
        first = next((name for name, total in totals.items() if total <= usable), None)
        largest = max((part for part in NAMES if part != "target"), key=bars["as it is"].__getitem__)
        verdict = {None: f"none of the three fits into {usable:.1f} GB", "as it is": "it fits as it is"}.get(
            first,
            f"it fits with {'chunked logits' if first == 'chunked logits' else 'chunked logits and checkpointing'}",
        )
        text = (
            f"{length:,} tokens, {ttt} steps, {ranks} rank{'s' if ranks > 1 else ''}, N = {draft_vocab:,}, {attention} "
            f"attention, target {target}: {totals['as it is']:,.1f} GB per rank, most of it {NAMES[largest]}. "
            f"{totals['chunked logits']:,.1f} GB with chunked logits, {totals['and checkpointing']:,.1f} GB with "
            f"checkpointing too: {verdict}."
        )
        return Frame(
            series,
            text=text,
            alt=f"Three stacked bars of memory against the line of an {chip.name.upper()}: as it is, with chunked "
            f"logits, and with checkpointing on top. {text}",
        )

    return explore(
        frame,
        {
            "length": Slider("row length L", LENGTHS, value=32_768, unit="tokens"),
            "ttt": Slider("unrolled steps k", STEPS, value=7),
            "ranks": Slider("ranks that share a row (SP)", RANKS),
            "draft_vocab": Slider("draft vocabulary N", (8000, 32_000, model.vocab), value=32_000, unit="tokens"),
            "attention": Slider("attention", ("fused", "naive")),
            "target": Slider("the target's weights", (HERE, "elsewhere")),
        },
        title=f"One training step of an EAGLE-3 draft beside {model.name}",
        x_label="what is done about it",
        y_label="memory per rank (GB)",
        y_range="frame",
        reference=Reference(usable, f"usable of an {chip.name.upper()} ({chip.memory_gb:g} GB)"),
    )
