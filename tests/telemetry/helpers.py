"""Reading text as if it came in a file."""

from __future__ import annotations

import io

import pytest

from labsim.telemetry import AcceptanceRecord, TelemetryError, read_stream


def read_text(text: str | bytes) -> AcceptanceRecord:
    data = text if isinstance(text, bytes) else text.encode()
    return read_stream(io.BytesIO(data), "input")


def refused(text: str | bytes) -> str:
    """The one sentence of a refusal."""
    with pytest.raises(TelemetryError) as caught:
        read_text(text)
    message = str(caught.value)
    assert "\n" not in message and message.startswith("input: ")
    return message


def assert_truth(record: AcceptanceRecord, truth: dict, *names: str, rel: float = 1e-12) -> None:
    for name in names or tuple(truth):
        got = getattr(record, name)
        assert got is not None, f"{name} is None: {record.unknown.get(name)}"
        assert got == pytest.approx(truth[name], rel=rel, abs=1e-12), name


def has_warning(record: AcceptanceRecord, word: str) -> bool:
    return any(word in warning for warning in record.warnings)
