"""Linear: every path gives the product, the packed one to the bit for any number of rows."""

from __future__ import annotations

import pytest
import torch

from labsim.models.linear import (
    PATHS,
    Linear,
    can_pack,
    choose_plan,
    measure_paths,
    paths_of_model,
    plan_from,
)

ROWS = (1, 2, 3, 4, 5, 8, 9, 16, 17, 64, 130)
needs_packed = pytest.mark.skipif(not can_pack(torch.float32), reason="this CPU has no prepacked product")


def here(path: str, dtype: torch.dtype = torch.float32) -> bool:
    return path != "packed" or can_pack(dtype)


def random(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(96, 64), (7, 5), (64, 1100), (1100, 600)], ids=str)
@pytest.mark.parametrize("path", ["auto", *PATHS])
def test_a_path_gives_the_product(path: str, shape: tuple[int, int]) -> None:
    if not here(path):
        pytest.skip("this CPU has no prepacked product")
    weight, bias = random(0, *shape), random(1, shape[0])
    plain, biased = Linear(weight, paths=path), Linear(weight, bias, paths=path)
    for rows in ROWS:
        x = random(rows, rows, shape[1])
        expected = x.double() @ weight.double().T
        # Rounding of a sum of I products of order 1.
        tolerance = 1e-6 * shape[1] ** 0.5 * 4
        torch.testing.assert_close(plain(x).double(), expected, atol=tolerance, rtol=1e-5)
        torch.testing.assert_close(biased(x).double(), expected + bias.double(), atol=tolerance, rtol=1e-5)


@pytest.mark.parametrize("path", ["auto", *PATHS])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sixteen_bits(path: str, dtype: torch.dtype) -> None:
    if not here(path, dtype):
        pytest.skip("this CPU has no prepacked product of that precision")
    weight, bias, x = random(0, 48, 40).to(dtype), random(1, 48).to(dtype), random(2, 6, 40).to(dtype)
    result = Linear(weight, bias, paths=path)(x)
    assert result.dtype == dtype
    expected = x.double() @ weight.double().T + bias.double()
    torch.testing.assert_close(result.double(), expected, atol=0.25, rtol=0.02)


@pytest.mark.parametrize("path", PATHS)
def test_leading_dimensions_and_strides(path: str) -> None:
    if not here(path):
        pytest.skip("this CPU has no prepacked product")
    weight = random(0, 24, 32)
    layer = Linear(weight, paths=path)
    wide = random(1, 2, 3, 5, 64)
    for x in (wide[..., ::2], wide[..., :32], wide.transpose(0, 2)[..., 32:], random(2, 32), wide[:0, ..., :32]):
        result = layer(x)
        assert result.shape == (*x.shape[:-1], 24)
        assert result.is_contiguous()
        torch.testing.assert_close(result, torch.einsum("...i,oi->...o", x, weight), atol=1e-4, rtol=1e-4)


@needs_packed
@pytest.mark.parametrize("shape", [(960, 576), (576, 1536), (3072, 576), (256, 704), (2048, 256)], ids=str)
def test_packed_rows_do_not_depend_on_their_company(shape: tuple[int, int]) -> None:
    layer, x = Linear(random(0, *shape), paths="packed"), random(1, 130, shape[1])
    alone = torch.cat([layer(row[None]) for row in x])
    for rows in ROWS:
        assert torch.equal(layer(x[:rows]), alone[:rows]), rows


@needs_packed
def test_packed_is_the_choice_for_every_number_of_rows() -> None:
    plan = choose_plan((576, 576), torch.float32)
    assert {plan.path(rows) for rows in (1, 2, 5, 16, 17, 1000)} == {"packed"}
    assert choose_plan((576, 576), torch.float32, "cuda").path(5) == "linear"


@needs_packed
def test_a_packed_layer_gives_its_weights_back_and_keeps_no_second_copy() -> None:
    weight = random(0, 96, 64)
    layer = Linear(weight, paths="packed")
    expected = weight.clone()
    weight.zero_()
    assert torch.equal(layer.weight_OI, expected)
    x = random(1, 4, 64)
    torch.testing.assert_close(layer(x), x @ expected.T, atol=1e-4, rtol=1e-4)
    assert (layer.shape, layer.weight_bytes) == ((96, 64), 96 * 64 * 4)


def by_path_and_rows(milliseconds: dict[str, dict[int, float]]) -> dict[tuple[str, int], float]:
    return {(path, rows): value for path, row in milliseconds.items() for rows, value in row.items()}


def test_without_packed_the_faster_of_the_others_is_taken_only_when_clearly_faster() -> None:
    milliseconds = {"linear": {1: 40.0, 5: 75.0, 16: 62.0}, "transposed": {1: 39.0, 5: 29.0, 16: 55.0}}
    plan = plan_from(by_path_and_rows(milliseconds))
    # One row is within noise, two to ten belong to the measured five, 55 against 62 is not clear enough.
    expected = {1: "linear", 2: "transposed", 5: "transposed", 10: "transposed", 11: "linear", 64: "linear"}
    assert {rows: plan.path(rows) for rows in expected} == expected


# Milliseconds of SmolLM2's products on two cores each.
EPYC = {"packed": {1: 19, 2: 17, 3: 17, 4: 18, 16: 30}, "linear": {1: 43, 2: 75, 3: 95, 4: 60, 16: 66}}
XEON = {"packed": {1: 28, 2: 27, 3: 26, 4: 26, 16: 39}, "linear": {1: 21, 2: 22, 3: 23, 4: 37, 16: 51}}


@needs_packed
@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        (EPYC, dict.fromkeys((1, 2, 5, 16, 64), "packed")),
        (XEON, {1: "linear", 2: "linear", 3: "packed", 4: "packed", 5: "packed", 64: "packed"}),
    ],
    ids=["EPYC", "Xeon"],
)
def test_a_large_model_takes_what_is_fastest_for_each_number_of_rows(
    monkeypatch: pytest.MonkeyPatch, processor: dict, expected: dict[int, str]
) -> None:
    plan = plan_from(by_path_and_rows(processor))
    monkeypatch.setattr("labsim.models.linear._fastest_plan", lambda *_: plan)
    weight = random(0, 96, 64)
    layer = Linear(weight, paths=paths_of_model(538 << 20))
    assert {rows: layer.plan.path(rows) for rows in expected} == expected
    for rows in expected:
        x = random(rows, rows, 64)
        torch.testing.assert_close(layer(x), x @ weight.T, atol=1e-4, rtol=1e-4)
    assert torch.equal(layer.weight_OI, weight)


def test_a_model_in_the_cache_or_too_large_to_keep_twice_is_not_measured() -> None:
    sizes = {27 << 20: "auto", 538 << 20: "fastest", 4 << 30: "auto"}
    assert {size: paths_of_model(size) for size in sizes} == sizes
    assert choose_plan((8, 8), torch.float32, "cuda", paths="fastest").paths == {"linear"}


def test_the_fastest_plan_is_measured_here() -> None:
    plan = choose_plan((8, 8), torch.float32, paths="fastest")
    assert plan.paths <= {path for path, _ in plan.seconds}
    assert plan is choose_plan((8, 8), torch.float32, paths="fastest")


def test_measuring_names_what_exists_here() -> None:
    seconds = measure_paths((32, 16), rows=(1, 3), repeats=1)
    assert {path for path, _ in seconds} == {path for path in PATHS if here(path)}
    assert {rows for _, rows in seconds} == {1, 3}
    assert min(seconds.values()) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weight_OI": torch.ones(3)}, r"weight_OI has shape \(3,\); a matrix"),
        ({"weight_OI": torch.ones(3, 2), "bias_O": torch.ones(2)}, r"bias_O has shape \(2,\); weight_OI has 3 outputs"),
        ({"weight_OI": torch.ones(3, 2), "paths": "paked"}, "unknown path 'paked'; did you mean 'packed'"),
    ],
)
def test_bad_input_is_named(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Linear(**arguments)
