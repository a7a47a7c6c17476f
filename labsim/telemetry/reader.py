"""What a format's reader looks like, and the clean-up that every log line gets first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from .assemble import Reading

LONGEST_LINE = 1 << 14
MOST_REMEMBERED = 50_000

# Colour codes, also where a copy lost the escape character itself.
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\[(?:\d{1,2};)*\d{1,2}m|\x1b")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_PID = re.compile(r"\((?:\w+\s+)?pid=(\d{1,10})(?:,\s*ip=[\w.:]+)?\)")
# Who printed a line, as `kubectl logs --prefix`, docker compose and swarm, stern, journald and Ray put it in front.
_REPLICA = re.compile(
    r"^\[(?:pod/)?(?P<kubectl>[\w.-]+/[\w.-]+)\]"
    r"|^(?P<compose>[A-Za-z][\w.@-]*)\s*\|"
    r"|^(?P<stern>[a-z0-9][a-z0-9-]*-[a-z0-9]{5}) [a-z][a-z0-9-]* "
    r"|^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) (?P<host>[\w.-]+) (?P<unit>[\w.@-]+)\[\d+\]:"
    r"|\(\w+ pid=\d{1,10}, ip=(?P<ray>[\w.:]+)\)"
)


def clean(line: str) -> str:
    """One log line without colour codes, control characters and the `> ` of a quotation."""
    line = _CONTROL.sub(" ", _COLOUR.sub("", line))
    while line.startswith((">", " >")):
        line = line.lstrip(" ").removeprefix(">").removeprefix(" ")
    return line.rstrip()


def process_id(line: str) -> str | None:
    """The process id of a prefix such as `(APIServer pid=9500)`."""
    match = _PID.search(line[:200])
    return match[1] if match else None


def replica(line: str) -> str | None:
    """The pod, container, unit of a host or node that a collector names in front of a line."""
    match = _REPLICA.search(line[:200])
    return "/".join(part for part in match.groups() if part) if match else None


class LineReader:
    """Reads the lines of one format. The scanner hands over a line if `wants` matches it or `collecting` is True."""

    wants: ClassVar[re.Pattern[str]]
    takes_long_lines: ClassVar[bool] = False

    def __init__(self) -> None:
        self.collecting = False
        self.file_label: str | None = None
        self.refusals: list[str] = []
        self.seen = self.repeats = 0
        self._printed: dict[int, None] = {}

    def start_file(self, label: str | None) -> None:
        """A new file begins; `label` tells it apart from others of the same call."""
        self.file_label = label

    def line(self, text: str) -> None:
        raise NotImplementedError

    def found(self) -> int:
        """How many prints of this format were understood so far."""
        return self.seen

    def end_file(self) -> None:
        """Whatever is still open is complete now, or cut."""

    def readings(self) -> list[Reading]:
        """What was read, at the very end; empty if nothing."""
        raise NotImplementedError

    def repeated(self, start: str | None, *print_: str | None) -> bool:
        """Whether this print was counted before: rotated logs overlap, and a file may be given twice.

        A print without a time stamp is never taken for a repetition. The last `MOST_REMEMBERED` are remembered.
        """
        if start is None:
            return False
        key = hash((start, *print_))
        if key in self._printed:
            self.repeats += 1
            return True
        if len(self._printed) >= MOST_REMEMBERED:
            del self._printed[next(iter(self._printed))]
        self._printed[key] = None
        return False

    def warn_of_repeats(self, reading: Reading) -> None:
        if self.repeats:
            reading.warn(f"{self.repeats} print(s) appear twice, with the same time stamp and figures: counted once")

    def engine_label(self, *parts: str | None) -> str | None:
        """`file:pid/engine`, of what is known."""
        inner = "/".join(part for part in parts if part)
        return ":".join(part for part in (self.file_label, inner) if part) or None

    def usable(self, readings: Iterable[Reading]) -> list[Reading]:
        """Those that counted something; a refusal for those whose prints all contradict themselves."""
        found = list(readings)
        for reading in found:
            if reading.tally.total.n == 0 and reading.contradictions:
                self.refuse("its counts contradict themselves: more accepted than drafted tokens")
        return [reading for reading in found if reading.tally.total.n]

    def refuse(self, reason: str) -> None:
        if reason not in self.refusals and len(self.refusals) < 10:
            self.refusals.append(reason)
