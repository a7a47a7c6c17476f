"""GPUs: ridges against hand arithmetic, names, and errors."""

from __future__ import annotations

import pytest

from labsim.sim.hardware import BYTES_PER_WEIGHT, GPUS, Gpu, find_gpu


@pytest.mark.parametrize(("name", "rows"), [("a100", 153), ("h100", 295), ("h200", 206), ("b200", 281)])
def test_bf16_ridge_is_peak_over_bandwidth(name: str, rows: int) -> None:
    assert round(GPUS[name].ridge_rows()) == rows


@pytest.mark.parametrize("name", ["h100", "h200", "b200"])
def test_fp8_weights_with_fp8_math_keep_the_ridge(name: str) -> None:
    assert GPUS[name].ridge_rows("fp8") == pytest.approx(GPUS[name].ridge_rows(), rel=1e-3)


def test_weight_only_four_bit_moves_the_ridge_about_four_times_to_the_left() -> None:
    ratio = GPUS["h100"].ridge_rows() / GPUS["h100"].ridge_rows("int4")
    assert ratio == pytest.approx(2 / BYTES_PER_WEIGHT["int4"]) and 3.5 < ratio <= 4


def test_fp8_on_a_gpu_without_it_runs_at_bf16_speed() -> None:
    assert GPUS["a100"].flops("fp8") == GPUS["a100"].flops("bf16")


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("H100", "h100"),
        ("NVIDIA H200", "h200"),
        ("A100 80G", "a100"),
        ("RTX 3090", "rtx3090"),
        ("rtx_pro_6000", "rtxpro6000"),
    ],
)
def test_common_spellings(spelling: str, name: str) -> None:
    assert find_gpu(spelling).name == name


def test_unknown_gpu_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown gpu 'h10'; did you mean 'h100'"):
        find_gpu("h10")


def test_a_gpu_of_ones_own_passes_through_and_is_checked() -> None:
    mine = Gpu("mine", 48, 1e12, {"bf16": 100}, 32e9, "test")
    assert find_gpu(mine) is mine
    with pytest.raises(ValueError, match=r"bandwidth is -1\.0; allowed"):
        Gpu("mine", 48, -1, {"bf16": 100}, 32e9, "test")
    with pytest.raises(ValueError, match="at least the key 'bf16'"):
        Gpu("mine", 48, 1e12, {"fp8": 100}, 32e9, "test")


def test_every_gpu_names_its_source() -> None:
    assert all("datasheet" in g.source or "whitepaper" in g.source or "Workstation" in g.source for g in GPUS.values())
