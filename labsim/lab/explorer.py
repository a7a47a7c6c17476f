"""Explorers: sliders over a figure, alive in JupyterLab, in exported HTML and in slides.

    explorer = explore(
        compute,                                    # compute(k=3, batch=8) -> Frame
        {"k": Slider("draft length K", (1, 2, 3, 5, 7), value=3, unit="tokens"),
         "batch": Slider("concurrency", (1, 8, 32, 128), unit="requests")},
        title="Speed-up against acceptance", x_label="conditional acceptance", y_label="speed-up (x)",
        reference=Reference(1.0, "no gain"),
    )

`compute` is called once per combination of slider values, before anything is shown. The frames travel inside the
widget's own state and `explorer.js` draws the chosen one as SVG. So moving a slider asks no kernel and no network, and
the live widget *is* the exported one. The price is a grid that has to stay small: `explore` refuses more than
`MAX_NUMBERS` numbers or `MAX_BYTES` of JSON and says which slider to coarsen.

In Python, `explorer.value = {"k": 5}` (or `explorer.set(k=5)`) moves a slider and `explorer.frame` is what is drawn;
both are observable traits. A slider moved in the browser arrives as the same change.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from ..sim.errors import unknown_name
from .style import LOOKS, widget_css

MAX_NUMBERS = 20_000
MAX_BYTES = 2_000_000
DIGITS = 5
KINDS = ("line", "points", "dots", "bar", "stack", "step")

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Slider:
    """A slider over a list of allowed values (numbers or texts). `value` is where it starts (default: the first).

    Where its numbers leave others out, the widget says so beside it: a grid of frames is as coarse as its sliders.
    """

    label: str
    values: Sequence[Any]
    value: Any = None
    unit: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise ValueError(f"values of slider {self.label!r} is empty; allowed: at least one value")
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"values of slider {self.label!r} are {list(self.values)}; allowed: each value once")
        if self.value is None:
            object.__setattr__(self, "value", self.values[0])
        self.index_of(self.value)

    @property
    def coarse(self) -> str:
        """What the slider says of numbers between its values, which nobody computed; empty where there are none."""
        numbers = [value for value in self.values if isinstance(value, int | float)]
        if len(numbers) < len(self.values) or len(numbers) < 2:
            return ""
        if all(isinstance(one, int) for one in numbers) and max(numbers) - min(numbers) == len(numbers) - 1:
            return ""
        return f"{len(numbers)} values from {_text(min(numbers))} to {_text(max(numbers))}"

    def index_of(self, value: Any) -> int:
        """Position of `value`. ValueError naming the slider and its values if it is not one of them."""
        if value not in self.values:
            raise ValueError(f"slider {self.label!r} is {value!r}; allowed: {', '.join(map(str, self.values))}")
        return self.values.index(value)


@dataclass(frozen=True)
class Series:
    """One line, set of points or set of bars. `lo` and `hi` are the ends of its uncertainty at each x.

    `x` holds numbers, or texts for categories. None, NaN and infinity in `y` are gaps. `kind` is one of KINDS; those of
    the kind "stack" stand on each other, the first at the bottom; "dots" are small points, "step" is a stair around
    each x.
    """

    name: str
    x: Sequence[Any]
    y: Sequence[float | None]
    lo: Sequence[float | None] | None = None
    hi: Sequence[float | None] | None = None
    kind: str = "line"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown_name("series kind", self.kind, KINDS)
        if (self.lo is None) != (self.hi is None):
            raise ValueError(f"series {self.name!r} has only one of lo and hi; allowed: both or neither")
        for field in ("x", "y", "lo", "hi"):
            column = getattr(self, field)
            if column is None:
                continue
            if len(column) != len(self.x):
                raise ValueError(
                    f"series {self.name!r}: {field} has {len(column)} values; allowed: {len(self.x)}, as many as x"
                )
            object.__setattr__(self, field, tuple(_rounded(value) for value in column))


@dataclass(frozen=True)
class Frame:
    """What is drawn for one combination of slider values.

    `text` is the sentence under the figure; `alt` describes the picture to those who do not see it (default: `text`).
    `mark` is an optional (x, label) of a vertical line, such as the break-even point.
    """

    series: Sequence[Series]
    text: str
    alt: str = ""
    mark: tuple[float, str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "series", tuple(self.series))
        object.__setattr__(self, "alt", self.alt or self.text)
        if not self.series or not self.alt.strip():
            raise ValueError("a frame needs at least one series and a text or alt that says what it shows")
        if self.mark is not None:
            object.__setattr__(self, "mark", (_rounded(self.mark[0]), self.mark[1]))


@dataclass(frozen=True)
class Reference:
    """A horizontal line at `y` with its meaning, the same in all frames."""

    y: float
    label: str


class Explorer(anywidget.AnyWidget):
    """The widget; build it with `explore`. `value` and `frame` are for Python, `spec`, `grid` and `index` for the
    browser."""

    _esm = _HERE / "explorer.js"
    _css = widget_css("explorer")

    spec = traitlets.Dict(help="labels, sliders and scales").tag(sync=True)
    grid = traitlets.Dict(help="the frames, in row-major order of the sliders").tag(sync=True)
    index = traitlets.List(traitlets.Int(), help="position of each slider").tag(sync=True)

    value = traitlets.Dict(help="value of each slider by name; a part may be assigned")
    frame = traitlets.Instance(Frame, help="the frame that is drawn now")

    def __init__(self, sliders: Mapping[str, Slider], frames: Sequence[Frame], spec: Mapping[str, Any]) -> None:
        self._sliders = dict(sliders)
        self._frames = tuple(frames)
        index = [slider.index_of(slider.value) for slider in sliders.values()]
        super().__init__(
            spec=dict(spec),
            grid=pack(self._frames),
            index=index,
            frame=self._frames[self._position(index)],
            value={name: slider.value for name, slider in sliders.items()},
        )

    @property
    def sliders(self) -> Mapping[str, Slider]:
        """The sliders by name."""
        return dict(self._sliders)

    @property
    def frames(self) -> dict[tuple[Any, ...], Frame]:
        """All frames by the tuple of slider values."""
        keys = itertools.product(*(slider.values for slider in self._sliders.values()))
        return dict(zip(keys, self._frames, strict=True))

    def set(self, **values: Any) -> Frame:
        """Move the named sliders and return the frame that is then drawn."""
        self.value = values
        return self.frame

    def _position(self, index: Sequence[int]) -> int:
        position = 0
        for slider, at in zip(self._sliders.values(), index, strict=True):
            position = position * len(slider.values) + at
        return position

    @traitlets.validate("value")
    def _complete(self, proposal: Mapping[str, Any]) -> dict[str, Any]:
        for name, value in proposal["value"].items():
            if name not in self._sliders:
                raise unknown_name("slider", str(name), self._sliders)
            self._sliders[name].index_of(value)
        return {**self.value, **proposal["value"]}

    @traitlets.validate("index")
    def _inside(self, proposal: Mapping[str, Any]) -> list[int]:
        index = list(proposal["value"])
        sizes = [len(slider.values) for slider in self._sliders.values()]
        if len(index) != len(sizes) or not all(0 <= at < size for at, size in zip(index, sizes, strict=True)):
            raise ValueError(f"index is {index}; allowed: one position per slider, below {sizes}")
        return index

    @traitlets.observe("value")
    def _value_moved(self, change: Mapping[str, Any]) -> None:
        self.index = [slider.index_of(self.value[name]) for name, slider in self._sliders.items()]

    @traitlets.observe("index")
    def _index_moved(self, change: Mapping[str, Any]) -> None:
        self.frame = self._frames[self._position(self.index)]
        self.value = {name: s.values[at] for (name, s), at in zip(self._sliders.items(), self.index, strict=True)}


def explore(
    compute: Callable[..., Frame],
    sliders: Mapping[str, Slider],
    *,
    title: str,
    x_label: str,
    y_label: str,
    x_scale: str = "linear",
    y_scale: str = "linear",
    y_range: str | tuple[float, float] = "grid",
    y_down: bool = False,
    reference: Reference | None = None,
) -> Explorer:
    """Compute all frames and return the widget that shows them.

    Args:
        compute: called with one value per slider, by name; returns the frame. Must not depend on the order of calls.
        x_scale, y_scale: "linear", "log2" or "log10".
        y_range: "grid", one range that holds all frames, so that moving a slider moves the curve and not the axis;
            "frame", each frame's own; or a pair.
        y_down: small values at the top, as in a matrix.

    Raises:
        ValueError: an empty label, an unknown scale, or a grid above MAX_NUMBERS or MAX_BYTES.
    """
    for name, label in (("title", title), ("x_label", x_label), ("y_label", y_label)):
        if not label.strip():
            raise ValueError(f"{name} is empty; allowed: a text, for an axis with its unit")
    for scale in (x_scale, y_scale):
        if scale not in ("linear", "log2", "log10"):
            raise unknown_name("scale", scale, ("linear", "log2", "log10"))
    if not sliders:
        raise ValueError("sliders is empty; allowed: at least one")
    frames = _compute_all(compute, sliders)
    spec = {
        "title": title,
        "xLabel": x_label,
        "yLabel": y_label,
        "xScale": x_scale,
        "yScale": y_scale,
        "yRange": _y_range(y_range, y_scale, frames, reference),
        "yDown": y_down,
        "reference": asdict(reference) if reference else None,
        "looks": [asdict(look) for look in LOOKS],
        "sliders": [
            {
                "name": name,
                "label": s.label,
                "unit": s.unit,
                "texts": [_text(v) for v in s.values],
                "coarse": s.coarse,
            }
            for name, s in sliders.items()
        ],
    }
    return Explorer(sliders, frames, spec)


def pack(frames: Sequence[Frame]) -> dict[str, Any]:
    """JSON-ready form of the frames. Columns that occur twice (x, mostly) are kept once, and referred to by number."""
    columns: dict[tuple, int] = {}

    def number(column: Sequence[Any] | None) -> int | None:
        return None if column is None else columns.setdefault(tuple(column), len(columns))

    packed = [
        {
            "text": frame.text,
            "alt": frame.alt,
            "mark": list(frame.mark) if frame.mark else None,
            "series": [
                [one.name, one.kind, number(one.x), number(one.y), number(one.lo), number(one.hi)]
                for one in frame.series
            ],
        }
        for frame in frames
    ]
    return {"columns": [list(column) for column in columns], "frames": packed}


def unpack(grid: Mapping[str, Any]) -> tuple[Frame, ...]:
    """The frames of a packed grid: the inverse of `pack`, and what `explorer.js` does."""
    columns = grid["columns"]

    def column(at: int | None) -> Any:
        return None if at is None else columns[at]

    return tuple(
        Frame(
            [
                Series(name, column(x), column(y), column(lo), column(hi), kind)
                for name, kind, x, y, lo, hi in one["series"]
            ],
            one["text"],
            one["alt"],
            tuple(one["mark"]) if one["mark"] else None,
        )
        for one in grid["frames"]
    )


def _compute_all(compute: Callable[..., Frame], sliders: Mapping[str, Slider]) -> list[Frame]:
    combinations = list(itertools.product(*(slider.values for slider in sliders.values())))
    frames: list[Frame] = []
    numbers, start, told = 0, time.monotonic(), 0.0
    for done, values in enumerate(combinations, start=1):
        frame = compute(**dict(zip(sliders, values, strict=True)))
        if not isinstance(frame, Frame):
            raise TypeError(f"compute returned {type(frame).__name__}; allowed: a labsim.lab.explorer.Frame")
        frames.append(frame)
        numbers += sum(len(s.y) * (1 if s.lo is None else 3) for s in frame.series)
        # The first frames tell how large the grid becomes: refuse at once, not after a long computation.
        if numbers / done * len(combinations) > MAX_NUMBERS and (done == len(combinations) or done >= 3):
            _refuse(f"{round(numbers / done * len(combinations))} numbers", f"{MAX_NUMBERS}", sliders, numbers / done)
        elapsed = time.monotonic() - start
        if elapsed > 1.0 and elapsed - told > 0.5:
            told = elapsed
            print(f"\rcomputing {done} of {len(combinations)} frames", end="", file=sys.stderr, flush=True)
    if told:
        print(f"\rcomputed {len(combinations)} frames in {time.monotonic() - start:.1f} s ", file=sys.stderr)
    size = len(json.dumps(pack(frames)))
    if size > MAX_BYTES:
        _refuse(f"{size} bytes", f"{MAX_BYTES} bytes", sliders, numbers / len(frames))
    return frames


def _refuse(amount: str, allowed: str, sliders: Mapping[str, Slider], per_frame: float) -> None:
    sizes = " x ".join(str(len(slider.values)) for slider in sliders.values())
    name, largest = max(sliders.items(), key=lambda item: len(item[1].values))
    raise ValueError(
        f"the explorer's grid holds {amount} ({sizes} frames of about {per_frame:.0f}); allowed: {allowed}; give "
        f"slider {name!r} fewer than its {len(largest.values)} values, or each series fewer points"
    )


def stacked(series: Sequence[Series]) -> list[float]:
    """How high the stacked bars are, one height per x."""
    heights: dict[Any, float] = {}
    for one in series:
        if one.kind == "stack":
            for x, y in zip(one.x, one.y, strict=True):
                heights[x] = heights.get(x, 0.0) + (y or 0.0)
    return list(heights.values())


def _y_range(
    wanted: str | tuple[float, float], scale: str, frames: Sequence[Frame], reference: Reference | None
) -> list[float] | None:
    if wanted == "frame":
        return None
    if wanted != "grid":
        if isinstance(wanted, str):
            raise unknown_name("y_range", wanted, ("grid", "frame"))
        low, high = wanted
        if not low < high or (scale != "linear" and low <= 0):
            raise ValueError(f"y_range is {wanted}; allowed: a pair (low, high), low < high, above 0 on a log scale")
        return [float(low), float(high)]
    found = [
        value
        for frame in frames
        for series in frame.series
        for column in (series.y, series.lo or (), series.hi or ())
        for value in column
        if value is not None and (scale == "linear" or value > 0)
    ]
    if reference is not None:
        found.append(reference.y)
    found += [top for frame in frames for top in stacked(frame.series)]
    if any(series.kind in ("bar", "stack") for frame in frames for series in frame.series) and scale == "linear":
        found.append(0.0)
    low, high = min(found, default=0.0), max(found, default=1.0)
    return [low, high] if low < high else [low - 0.5, high + 0.5]


def _rounded(value: Any) -> Any:
    """A JSON number of DIGITS digits; None for NaN and infinity; texts as they are."""
    if value is None or isinstance(value, str):
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    short = float(f"{number:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short


def _text(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
