"""Bytes in: compression, standard input, encodings, sizes, and everything that is no telemetry."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import json
import lzma
import os
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from labsim.telemetry import TelemetryError, read, read_stream
from labsim.telemetry.sums import MOST_WINDOWS, Observation, Tally
from scripts import engine_output as out
from tests.telemetry.helpers import assert_truth, has_warning, read_text, refused

STEPS = out.draw_steps(1, (0.7, 0.5, 0.3), 3_000)
TRUTH = out.truth(STEPS, 3)
LOG = "".join(out.vllm_v1_line(w, 3, at=10.0 * i) + "\n" for i, w in enumerate(out.windows(STEPS, 300)))


def test_gzip_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(gzip.compress(LOG[: len(LOG) // 2].encode()) + gzip.compress(LOG[len(LOG) // 2 :].encode()))
    assert_truth(read(path), TRUTH)


def test_a_cut_gzip_gives_what_it_held() -> None:
    noise = "".join(f"{random.Random(i).random()}\n" for i in range(20_000))
    data = gzip.compress((LOG + noise).encode())
    record = read_text(data[: len(data) // 2])
    assert_truth(record, TRUTH)
    assert has_warning(record, "cut or damaged")
    assert "cut or damaged" in refused(data[:15])


def test_standard_input() -> None:
    code = "from labsim.telemetry import read; print(read('-').drafts)"
    result = subprocess.run(
        [sys.executable, "-c", code], input=gzip.compress(LOG.encode()), capture_output=True, check=True
    )
    assert int(result.stdout) == len(STEPS)
    with pytest.raises(TelemetryError, match="twice"):
        read(["-", "-"])


def test_a_closed_standard_input_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TelemetryError, match=r"standard input \(-\) is closed; right is a file"):
        read("-")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_encodings(encoding: str) -> None:
    assert_truth(read_text(("préambule\n" + LOG).encode(encoding)), TRUTH)


def test_line_ends_and_control_bytes() -> None:
    assert_truth(read_text(LOG.replace("\n", "\r\n")), TRUTH)
    assert_truth(read_text(LOG.replace("INFO", "\x01\x00\x00\x00\x00\x00\x01\x1fINFO")), TRUTH)


@pytest.mark.parametrize("size", [1, 7, 100, 4096])
def test_chunks_of_any_size(size: int) -> None:
    class Slow(io.BytesIO):
        def read(self, count: int = -1) -> bytes:
            return super().read(size)

    assert_truth(read_stream(Slow(LOG.encode())), TRUTH)


def test_files_of_one_call_add_up(tmp_path: Path) -> None:
    lines = LOG.splitlines(keepends=True)
    (tmp_path / "a.log").write_text("".join(lines[:4]))
    (tmp_path / "b.log").write_text("".join(lines[4:]))
    record = read([tmp_path / "a.log", tmp_path / "b.log"])
    assert_truth(record, TRUTH)
    assert record.files == (str(tmp_path / "a.log"), str(tmp_path / "b.log"))


def test_one_file_without_telemetry_among_others_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    (tmp_path / "b.log").write_text("nginx started\n")
    with pytest.raises(TelemetryError, match=r"b\.log: no acceptance telemetry"):
        read([tmp_path / "a.log", tmp_path / "b.log"])


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"\n\n", "no acceptance telemetry"),
        (b"nginx: worker started\n" * 50, "no acceptance telemetry"),
        (random.Random(0).randbytes(8192), "binary"),
        (
            bz2.compress(b"x" * 5000),
            "packed with bzip2, which is not read here; right: bzip2 -dc FILE | labsim",
        ),
        (lzma.compress(b"x" * 5000), "right: xz -dc FILE"),
        (b"\x28\xb5\x2f\xfd" + random.Random(0).randbytes(500), "right: zstd -dc FILE"),
        (b'{"spec_decode_acceptance_rate": 50.0, "spec_dec', "cut or damaged"),
        (b'{"a": ' * 50, "cut or damaged"),
        (b"[" * 200_000, "cut or damaged"),
        (b'{"a":' * 200_000, "cut or damaged"),
        (b"{}", "no speculation figures"),
        (
            b"[2026-03-07 09:30:00 TP0] Decode batch. #running-req: 4, gen throughput (token/s): 9\n" * 9,
            "no line reports",
        ),
        (b"INFO 03-07 [loggers.py:1] Engine 000: Avg generation throughput: 1.0 tokens/s\n", "no line reports"),
    ],
)
def test_what_is_no_telemetry_is_refused_in_a_sentence(content: bytes, word: str) -> None:
    assert word in refused(content)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match="no such file"):
        read(tmp_path / "missing.log")
    with pytest.raises(TelemetryError, match="directory"):
        read(tmp_path)
    with pytest.raises(TelemetryError, match="no file given"):
        read([])
    with pytest.raises(TelemetryError, match="cannot be opened"):
        read("a\0b")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "secret.log"
    path.write_text(LOG)
    path.chmod(0)
    with pytest.raises(TelemetryError, match="no permission"):
        read(path)


@pytest.mark.parametrize("whole", [0, 1])
@pytest.mark.parametrize("data", [LOG.encode(), gzip.compress(LOG.encode())], ids=["plain", "gzip"])
def test_a_disk_that_fails_while_it_is_read_is_named(data: bytes, whole: int) -> None:
    class Failing(io.BytesIO):
        reads = 0

        def read(self, count: int = -1) -> bytes:
            self.reads += 1
            if self.reads > whole:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().read(count)

    with pytest.raises(TelemetryError, match=r"a\.log cannot be read: Input/output error"):
        read_stream(Failing(data), "a.log")


@pytest.mark.parametrize(
    "text",
    [
        "SpecDecoding metrics: Mean acceptance length: 1e999, Accepted: -5 tokens, Drafted: 10 tokens",
        "SpecDecoding metrics: Accepted: " + "9" * 5000 + " tokens, Drafted: 10 tokens",
        "SpecDecoding metrics: Accepted: 20 tokens, Drafted: 10 tokens, Draft acceptance rate: 200%",
        'vllm:spec_decode_num_draft_tokens_total{e="0"} 1e999\nvllm:spec_decode_num_accepted_tokens_total{e="0"} NaN',
        'vllm:spec_decode_num_draft_tokens_total{e="0"} -5\nvllm:spec_decode_num_accepted_tokens_total{e="0"} -1',
        json.dumps({"draft_n": 10**400, "draft_n_accepted": -1}),
        '{"draft_n": ' + "9" * 100_000 + ', "draft_n_accepted": 1}',
        '{"metrics": {"speculative_decoding": {"acceptance_histogram": [1e308, NaN, -Infinity]}}}',
        "draft acceptance = 9e999 ( 1 accepted / 0 generated), mean len = nan",
    ],
)
def test_mad_numbers_end_in_a_record_or_a_refusal(text: str) -> None:
    try:
        record = read_text(text)
    except TelemetryError:
        return
    json.dumps(record.to_dict(), allow_nan=False)


def test_a_line_of_many_megabytes_is_passed_over() -> None:
    record = read_text(LOG + "accept" * 4_000_000 + "\n" + LOG.replace("03-07", "03-08"))
    assert record.drafts == 2 * len(STEPS)


def dated(log: str, number: int) -> str:
    """The log as printed at another time: ten minutes later for each `number`."""
    day, rest = divmod(number, 144)
    return log.replace("03-07 09:3", f"{1 + day // 28:02d}-{1 + day % 28:02d} {rest // 6:02d}:{rest % 6}")


def test_memory_stays_constant_on_a_long_log() -> None:
    class Repeated(io.RawIOBase):
        """The same figures over and over, at other times: 6 MB that never exist at once."""

        def __init__(self) -> None:
            self.left, self.copies = 6, 1_000_000 // len(LOG)

        def read(self, count: int = -1) -> bytes:
            self.left -= 1
            first = (5 - self.left) * self.copies
            return "".join(dated(LOG, first + i) for i in range(self.copies)).encode() if self.left >= 0 else b""

    tracemalloc.start()
    record = read_stream(Repeated())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    times = 6 * (1_000_000 // len(LOG))
    assert record.drafts == times * len(STEPS)
    assert record.alpha == pytest.approx(TRUTH["alpha"])
    assert len(record.windows) <= MOST_WINDOWS
    assert sum(window.drafts for window in record.windows) == record.drafts
    assert peak < 40e6


def test_the_series_coarsens_within_an_engine() -> None:
    tally = Tally(most_windows=64)
    for i in range(10_000):
        engine = "a" if i % 2 else "b"
        tally.add(Observation(engine=engine, k=3, drafts=2, drafted=6, accepted=1 if engine == "a" else 5))
    windows = tally.series.windows()
    assert 16 <= len(windows) <= 64 + 2
    assert sum(w.drafts for w in windows) == 20_000
    assert {round(w.alpha(), 6) for w in windows if w.engine == "a"} == {round(1 / 6, 6)}
    assert [w.order for w in windows] == sorted(w.order for w in windows)
