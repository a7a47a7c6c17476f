"""The one error of this package: an input that holds no acceptance telemetry, in one sentence."""

from __future__ import annotations


class TelemetryError(ValueError):
    """The input is not telemetry, or says nothing about speculation; the message names the file and the reason."""
