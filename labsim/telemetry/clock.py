"""Timestamps of log lines: enough to tell how long a log spans, whatever engine wrote it.

vLLM prints month and day without a year, SGLang a full date, container runtimes ISO 8601, llama.cpp the time since its
start as minutes.seconds.milliseconds.microseconds.
"""

from __future__ import annotations

import re
from datetime import datetime

_FULL = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_NO_YEAR = re.compile(r"(?<![\d-])(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_SINCE_START = re.compile(r"(?:^|[\s|\]])(\d{1,5})\.(\d\d)\.(\d{3})\.(\d{3})(?=\s)")


def timestamp(line: str) -> tuple[str | None, float | None]:
    """(as printed, seconds on an arbitrary scale), or (None, None). Only the first 200 characters are looked at."""
    head = line[:200]
    if match := _FULL.search(head):
        year, *rest = match.groups()
        return match[0], _seconds(int(year), *rest)
    if match := _NO_YEAR.search(head):
        # A leap year, so that 02-29 exists.
        return match[0], _seconds(2000, *match.groups())
    if match := _SINCE_START.search(head):
        minutes, seconds, milli, micro = (int(part) for part in match.groups())
        return match[0].strip(" |]\t"), minutes * 60 + seconds + milli / 1e3 + micro / 1e6
    return None, None


def _seconds(year: int, month: str, day: str, hour: str, minute: str, second: str, part: str | None) -> float | None:
    try:
        when = datetime(year, int(month), int(day), int(hour), int(minute), int(second))
    except ValueError:
        return None
    return (when - datetime(1970, 1, 1)).total_seconds() + float(f"0.{part or 0}")
