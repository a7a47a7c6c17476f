"""The errors of this package, in one sentence each: no acceptance telemetry, or files that are not one measurement."""

from __future__ import annotations


class TelemetryError(ValueError):
    """The input is not telemetry, or says nothing about speculation; the message names the file and the reason."""


class MixedInput(TelemetryError):
    """Files of several services were given as one measurement."""
