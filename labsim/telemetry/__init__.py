"""Reading what engines print: one reader per format, one record out.

    record = telemetry.read(["server.log"])
    record.alpha, record.alpha_interval, record.survival, record.warnings

Formats: vLLM's log (every wording), its metrics page, its benchmark and per-request JSON and offline script; the same
of SGLang; llama.cpp's log and timings; TensorRT-LLM's benchmark and statistics. What an input does not determine is
None, and `record.unknown` says why.
"""

from .dispatch import read, read_bench, read_stream
from .errors import MixedInput, TelemetryError
from .record import AcceptanceRecord, Bench, Window

__all__ = ["AcceptanceRecord", "Bench", "MixedInput", "TelemetryError", "Window", "read", "read_bench", "read_stream"]
