"""No input, however mangled, ends in anything but a record or a TelemetryError."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labsim.telemetry import TelemetryError, read
from scripts import engine_output as out
from tests.telemetry.helpers import read_text

STEPS = out.draw_steps(1, (0.7, 0.5, 0.3), 400)


def seeds() -> list[bytes]:
    """One small input per format and version."""
    half = STEPS[:200]
    texts = [
        "\n".join(out.vllm_v1_line(w, 3, wording, at=10.0 * i) for i, w in enumerate(out.windows(STEPS, 200)))
        for wording in ("0.8", "0.9", "0.10.2")
    ]
    texts += ["(APIServer pid=3) " + out.vllm_engine_line(1, 0.0) + "\n\x1b[0;36m(APIServer pid=3)\x1b[0m " + texts[2]]
    texts += ["\n".join(out.vllm_v0_line(STEPS[:n], 3, 0.7) for n in (200, 400))]
    texts += ["\n".join(out.sglang_line(w, 3, r) for w in out.windows(STEPS, 200)) for r in ("inside", "outside", None)]
    texts += ["\n".join(out.llamacpp_lines(half, 3, version)) for version in ("plain", "short", "trace", "long")]
    texts += ["n_draft   = 5\nn_drafted = 730\nn_accept  = 526\n", out.offline_summary(STEPS, 3)]
    texts += ["[DT] AVERAGE: 225.00\n[ADT] AVERAGE: 75.00\n[DAR] AVERAGE: 0.40\n[AL] AVERAGE: 2.20\n"]
    texts += [
        out.vllm_metrics({"0": half, "1": STEPS}, 3),
        out.vllm_metrics({"0": half}, 3) + out.vllm_metrics({"0": STEPS}, 3),
    ]
    texts += [
        out.sglang_metrics(2.2345678, 0.41152),
        out.bench_block(STEPS, 3),
        out.bench_block(STEPS, 3, engine="sglang"),
    ]
    texts += [json.dumps(out.bench_json(STEPS, 3)), json.dumps(out.vllm_request(half, 3, detailed=True))]
    texts += [out.json_lines([out.sglang_request(half, 3, names) for names in ("0.5.11", "0.5.9", "bonus")])]
    texts += ['{"timings": {"draft_n": 347, "draft_n_accepted": 65}}']
    texts += [
        '{"iter": 1, "specDecodingStats": '
        '{"numDraftTokens": 24, "numAcceptedTokens": 11, "numRequestsWithDraftTokens": 8}}'
    ]
    return [text.encode() for text in texts]


SEEDS = seeds()
SPLICES = [
    *(b"nan", b"inf", b"-1", b"1e999", b"9" * 400, b"\x00", b"\xff\xfe", b"\n", b"\r", b"{", b"[", b'"', b",", b"%"),
    *(b"...", b" | ", b"\x1b[31m", b"0", b"tokens", b"Drafted: ", b'position="', b"null", b"\x1f\x8b", b"1.000", b"}"),
]
KEYS = [
    *("metrics", "speculative_decoding", "acceptance_histogram", "num_spec_steps", "num_draft_tokens", "meta_info"),
    *("num_accepted_draft_tokens", "spec_num_correct_drafts", "spec_accept_length", "draft_n", "draft_n_accepted"),
    *("spec_verify_ct", "spec_decode_draft_tokens", "spec_decode_accepted_tokens", "spec_decode_num_drafts", "choices"),
    *("spec_decode_per_position_acceptance_rates", "spec_decode_acceptance_rate", "num_spec_tokens", "mean_tpot_ms"),
    *("per_step_accepted", "accept_length", "numDraftTokens", "numAcceptedTokens", "numRequestsWithDraftTokens"),
]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A few random damages: bytes, cuts, splices, repeats, swapped numbers, pieces of another format."""
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.randint(0, 40))
        match rng.randrange(8):
            case 0:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[to:]
            case 2:
                data = data[:at] + rng.choice(SPLICES) + data[at:]
            case 3:
                data = data[:to] + data[at:]
            case 4:
                data = data[:at] + str(rng.choice([0, 1, -3, 7.5, 10**9, 1e-300, 10**30])).encode() + data[to:]
            case 5:
                other = rng.choice(SEEDS)
                start = rng.randrange(len(other))
                data = data[:at] + other[start : start + rng.randint(0, 300)] + data[at:]
            case 6:
                data = data[:at]
            case _:
                digits = [i for i, byte in enumerate(data) if 48 <= byte <= 57]
                if digits:
                    i = rng.choice(digits)
                    data = data[:i] + bytes([48 + rng.randrange(10)]) + data[i + 1 :]
    return data


def survives(data: bytes) -> bool:
    """True for a record. Its figures must be sane, whatever was read."""
    try:
        record = read_text(data)
    except TelemetryError as error:
        assert "\n" not in str(error)
        return False
    document = json.loads(json.dumps(record.to_dict(), allow_nan=False))
    if record.alpha is not None:
        assert 0 <= record.alpha <= 1
    if record.alpha_interval is not None:
        low, high = record.alpha_interval
        assert 0 <= low <= record.alpha <= high <= 1
    if record.survival is not None:
        assert all(0 <= value <= 1 + 1e-9 for value in record.survival)
        assert list(record.survival) == sorted(record.survival, reverse=True)
    if record.acceptance_length is not None:
        assert record.acceptance_length >= 1
    for name in ("drafts", "drafted", "accepted"):
        assert document[name] is None or document[name] >= 0
    for name, value in document.items():
        assert (value is None) == (name in record.unknown), name
    return True


def test_the_undamaged_seeds_are_read() -> None:
    assert all(survives(seed) for seed in SEEDS)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.integers(0, 10**9), st.sampled_from(range(len(SEEDS))))
def test_damaged_telemetry(seed: int, which: int) -> None:
    survives(mutate(SEEDS[which], random.Random(seed)))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    survives(data)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=5)
            | st.dictionaries(
                st.sampled_from(KEYS),
                inner,
                max_size=8,
            )
        ),
        max_leaves=30,
    )
)
def test_any_json_with_the_right_keys(document: object) -> None:
    survives(json.dumps(document).encode())


def test_damaged_pairs_of_scrapes(tmp_path: Path) -> None:
    rng = random.Random(5)
    pages = [seed for seed in SEEDS if b"vllm:spec_decode" in seed]
    for _ in range(150):
        for name in "ab":
            (tmp_path / name).write_bytes(mutate(rng.choice(pages), rng))
        try:
            record = read([tmp_path / "a", tmp_path / "b"])
        except TelemetryError:
            continue
        json.dumps(record.to_dict(), allow_nan=False)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_mutations(capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(20260307)
    records, slowest, start = 0, 0.0, time.perf_counter()
    for _ in range(100_000):
        data = mutate(rng.choice(SEEDS), rng)
        before = time.perf_counter()
        records += survives(data)
        slowest = max(slowest, time.perf_counter() - before)
    with capsys.disabled():
        seconds = time.perf_counter() - start
        print(f"\n100000 mutations in {seconds:.0f} s: {records} records, {100_000 - records} refusals, no traceback; ")
        print(f"slowest {slowest:.3f} s")
    assert records > 50_000
    # A few milliseconds each; seconds would mean that some pattern backtracks.
    assert slowest < 2.0
