"""Will it fit, and what to do: remedies for a training step, in the order in which to try them.

    chunked logits        costs two more head products a step; cuts what grows with the vocabulary
    checkpointing         costs one more forward of the layer a step; cuts what grows with the layer's width
    sequence parallelism  costs GPUs, and communication; divides everything that grows with the row

Each is applied on top of those before it, until the step fits. A reserve is kept free for what the formula does not
count: the CUDA context, the allocator's fragments, buffers of collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .memory import DraftShape, StepBytes, StepSetting
from .memory_peak import peak

CHUNK = 1024
USABLE = 0.92  # of the GPU's memory
RANKS = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Remedy:
    """A setting with one more remedy than the one before it, and what it then takes. `fits` beside `usable`.

    `measured` is False where the step was never run in this way: sequence parallelism.
    """

    name: str
    setting: StepSetting
    bytes: StepBytes
    fits: bool
    measured: bool


@dataclass(frozen=True)
class Verdict:
    """`now` is the step as asked for; `remedies` the ones tried in order, up to the first that fits.

    Attributes:
        usable: bytes that a step may take; None without a GPU to hold against.
        enough: the last remedy fits, or none was needed.
    """

    usable: float | None
    now: Remedy
    remedies: Sequence[Remedy]

    @property
    def enough(self) -> bool:
        return (self.remedies[-1] if self.remedies else self.now).fits

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.usable is None:
            return "no GPU named, so nothing to fit into"
        if self.now.fits:
            return "fits as it is"
        if self.enough:
            return "does not fit; fits with " + " + ".join(remedy.name for remedy in self.remedies)
        return (
            f"does not fit, not even with {' + '.join(remedy.name for remedy in self.remedies)}: "
            "a shorter row, fewer steps, a smaller draft vocabulary or weights spread over ranks"
        )


def advise(
    shape: DraftShape, setting: StepSetting, memory: float | None, *, extra: float = 0.0, every: bool = False
) -> Verdict:
    """What a step takes and what to do about it.

    Args:
        memory: of one GPU, bytes; None for no verdict.
        extra: bytes that lie there besides the training, such as the target's weights.
        every: show each remedy, whether needed or not.
    """
    usable = None if memory is None else USABLE * memory

    def tried(name: str, changed: StepSetting) -> Remedy:
        found = peak(shape, changed)
        fits = usable is None or found.total + extra <= usable
        return Remedy(name, changed, found, fits, changed.sequence_parallel == 1 and changed.device == "cpu")

    now = tried("as asked", setting)
    remedies: list[Remedy] = []
    if now.fits and not every:  # without a GPU everything fits
        return Verdict(usable, now, ())
    if not setting.logit_chunk:
        remedies.append(tried("chunked logits", replace(setting, logit_chunk=CHUNK)))
    if (every or not (remedies and remedies[-1].fits)) and not setting.checkpointing and shape.kind != "heads":
        last = remedies[-1].setting if remedies else setting
        remedies.append(tried("checkpointing", replace(last, checkpointing=True)))
    last = remedies[-1] if remedies else now
    ranks = [ranks for ranks in RANKS if ranks > setting.sequence_parallel]
    if (not last.fits or every) and ranks:
        tries = (tried(f"sequence parallelism x{n}", replace(last.setting, sequence_parallel=n)) for n in ranks)
        # The first number of ranks that fits; of none, the largest.
        for one in tries:
            if one.fits:
                break
        remedies.append(one)
    return Verdict(usable, now, tuple(remedies))


def longest(shape: DraftShape, setting: StepSetting, memory: float, *, extra: float = 0.0, most: int = 1 << 24) -> int:
    """The longest row that fits, up to `most`; 0 when not even a row of 8 does."""
    usable = USABLE * memory

    def fits(positions: int) -> bool:
        return peak(shape, replace(setting, positions=positions, places=None)).total + extra <= usable

    if not fits(8):
        return 0
    low, high = 8, 16
    while high < most and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
