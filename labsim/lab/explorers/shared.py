"""Explorers of notebook 12: one rank in one step of training-time test, and what a shared row takes and sends.

Read off `labsim.parallel.layout`, `labsim.attention.bytes_sent` and `labsim.train.ttt.memory_peak`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ...attention.bytes_sent import AttentionShape
from ...parallel.layout import Layout
from ...sim.targets import find_model
from ...train.ttt.memory import DraftShape, StepSetting
from ...train.ttt.memory_peak import peak
from ...train.ttt.memory_remedies import CHUNK, USABLE
from ..exercises.shared_by_hand import halo, own
from ..explorer import Explorer, Frame, Reference, Series, Slider, explore
from ..memory_lab import grouped
from .memory import draft_of

LENGTH, RING, STEPS = 24, 4, 4
KINDS = ("zigzag", "contiguous")
KV_HEADS, HEAD_DIM, ELEMENT, KIB = 8, 128, 2, 1024  # Llama-3.1-8B's draft in bfloat16
LEFT, RIGHT = -2, LENGTH + STEPS + 1

TARGET = "llama-3.3-70b"  # its EAGLE-3 draft has 1.4 B parameters
LENGTHS = (32_768, 65_536, 131_072, 262_144)
RANKS = (1, 2, 4, 8, 16)
MESHES = ("ring", "Ulysses", "ring of Ulysses 4")
SMALL_GPU, LARGE_GPU = 80, 141  # GB: H100, H200
PARTS = {
    "weights": "weights, moments, gradients, target's head",
    "features": "target's states",
    "teacher": "teacher",
    "logits": "logits",
    "activations": "activations",
}


def one_rank_one_step() -> Explorer:
    """What a rank's queries attend to at a step: at home, round the ring, in their own branch. Sliders: step, rank,
    layout.
    """
    return explore(
        _one_step,
        {
            "step": Slider("TTT step", tuple(range(STEPS)), value=2),
            "rank": Slider("rank", tuple(range(RING)), value=1),
            "layout": Slider("layout", KINDS),
        },
        title="One rank in one step",
        x_label=f"key's position; from {LENGTH} on: own branch, by step",
        y_label="query's position",
        y_range=(0.0, float(LENGTH)),
        y_down=True,
    )


def _one_step(step: int, rank: int, layout: str) -> Frame:
    mine = own(layout, LENGTH, RING, rank)
    at_home = [(t, key) for t in mine for key in mine if key <= t]
    came = [(t, key) for t in mine for key in range(t + 1) if key not in mine]
    branch = [(t, LENGTH + made) for t in mine for made in range(1, step + 1)]
    series = [
        Series("text, at home", [key for _, key in at_home], [t for t, _ in at_home], kind="points"),
        Series("text, came round", [key for _, key in came], [t for t, _ in came], kind="points"),
        Series("own branch, stays", [key for _, key in branch], [t for t, _ in branch], kind="points"),
        Series("its queries", [LEFT] * len(mine) + [RIGHT] * len(mine), mine + mine, kind="points"),
    ]
    shape = AttentionShape(Layout(LENGTH, RING, 1, layout), KV_HEADS, KV_HEADS, HEAD_DIM, element_bytes=ELEMENT)
    border = ", ".join(map(str, halo(layout, LENGTH, RING, rank, STEPS)))
    text = (
        f"Step {step}, rank {rank} of {RING}, {layout}: its {len(mine)} queries see {len(at_home)} keys of the text at "
        f"home, {len(came)} that came round, and {len(branch)} of their own branches. This step's forward sends "
        f"{shape.ring_forward // KIB} KiB of the text's keys and values to the next rank, and 0 of the branch's. "
        f"For {STEPS} steps the rank also reads "
        + (f"position{'s' * (',' in border)} {border}." if border else "nothing beyond its own.")
    )
    return Frame(
        series,
        text=text,
        alt="A matrix of queries, downwards, and keys, to the right: a triangle of the text's keys, its columns by "
        f"where they lie, and right of it one column per step of the branch. {text}",
    )


def degrees(ranks: int, mesh: str) -> tuple[int, int]:
    """(ring, Ulysses) of a kind of mesh."""
    ulysses = {"ring": 1, "Ulysses": ranks, "ring of Ulysses 4": min(4, ranks)}[mesh]
    return ranks // ulysses, ulysses


@cache
def big_draft() -> tuple[DraftShape, float]:
    """(the draft, bytes of the target's head in bfloat16, which lies beside it; the rest of the target does not)."""
    model = find_model(TARGET)
    return draft_of(model.name), 2.0 * model.vocab * model.hidden


def sent_by_a_rank(
    shape: DraftShape, length: int, ttt: int, ranks: int, mesh: str, checkpointing: bool = False
) -> tuple[float, float]:
    """Bytes that a rank sends in one step: (for attention, for the sum of gradients). Checkpointing runs the layer's
    forward once more in backward, its messages included.
    """
    ring, ulysses = degrees(ranks, mesh)
    attention = AttentionShape(
        Layout(length, ring, ulysses), shape.heads, shape.kv_heads, shape.head_dim, element_bytes=2, steps=ttt
    )
    forwards = 2 if checkpointing else 1
    return forwards * attention.forward + attention.backward, 2 * (ranks - 1) * 4 * shape.parameters(ttt) / ranks


def what_a_rank_holds() -> Explorer:
    """Stacked bars of a rank's memory, with what it sends. Sliders: length, steps, mesh, remedies."""
    shape, beside = big_draft()

    def frame(length: int, ttt: int, mesh: str, checkpointing: str, chunk: int) -> Frame:
        again = checkpointing == "yes"
        base = StepSetting(positions=length, ttt=ttt, checkpointing=again, logit_chunk=chunk)
        found = {n: grouped(dict(peak(shape, replace(base, sequence_parallel=n)).parts)) for n in RANKS}
        totals = {n: (sum(parts.values()) + beside) / 1e9 for n, parts in found.items()}
        sent = {n: sent_by_a_rank(shape, length, ttt, n, mesh, again) for n in RANKS}
        names = [str(n) for n in RANKS]
        series = [
            Series(
                label,
                names,
                [(found[n][part] + (beside if part == "weights" else 0)) / 1e9 for n in RANKS],
                kind="stack",
            )
            for part, label in PARTS.items()
        ]
        series.append(Series("sent in a step", names, [sum(sent[n]) / 1e9 for n in RANKS], kind="points"))
        fits = {gpu: next((n for n in RANKS if totals[n] <= USABLE * gpu), 0) for gpu in (SMALL_GPU, LARGE_GPU)}
        enough = "; ".join(
            f"{gpu} GB: {f'{n} rank' + 's' * (n > 1) if n else f'more than {RANKS[-1]} ranks'}"
            for gpu, n in fits.items()
        )
        attention, gradients = (amount / 1e9 for amount in sent[8])
        how = ("checkpointing" if again else "no checkpointing") + (
            f", logits {chunk:,} at a time" if chunk else ", all logits at once"
        )
        text = (
            f"{length:,} tokens, {ttt} step{'s' * (ttt > 1)}, {how}. One rank would hold {totals[1]:,.1f} GB, each of "
            f"8 {totals[8]:,.1f} GB. Enough with {enough}. Each of 8 sends {attention:.1f} GB for attention ({mesh}) "
            f"and {gradients:.1f} GB for the sum of gradients in a step."
        )
        return Frame(
            series,
            text=text,
            alt=f"Stacked bars of memory for {', '.join(names)} ranks against the line of a GPU of {SMALL_GPU} GB, "
            f"with a marker of what a rank sends. {text}",
        )

    return explore(
        frame,
        {
            "length": Slider("row length L", LENGTHS, value=131_072, unit="tokens"),
            "ttt": Slider("unrolled steps k", (1, 4, 7), value=7),
            "mesh": Slider("how ranks share a row", MESHES),
            "checkpointing": Slider("checkpointing", ("no", "yes")),
            "chunk": Slider("logits at a time (0: all)", (0, CHUNK), unit="places"),
        },
        title=f"One training step of the EAGLE-3 draft of {find_model(TARGET).name}, 1.4 B parameters",
        x_label="ranks that share a row (SP)",
        y_label="per rank (GB)",
        y_range="frame",
        reference=Reference(USABLE * SMALL_GPU, f"usable of {SMALL_GPU} GB"),
    )
