"""Directories that somebody else made: no code in them runs, and what is wrong is named by file, key or tensor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from labsim.models.load import Target, choose_device, load_target
from tests.tiny_llama import byte_llama


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return byte_llama(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def directory(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "target"))


def load(directory: Path) -> Target:
    return load_target(str(directory), device="cpu")


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("place", ["tokenizer_config.json", "config.json"])
def test_code_in_a_targets_directory_never_runs(
    directory: Path, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = directory / "ran"
    (directory / "evil.py").write_text(
        f"open({str(ran)!r}, 'w').close()\n"
        "from transformers import LlamaConfig as EvilConfig, PreTrainedTokenizerFast as EvilTokenizer\n"
    )
    code = {"AutoTokenizer": ["evil.EvilTokenizer", "evil.EvilTokenizer"], "AutoConfig": "evil.EvilConfig"}
    edit(directory / place, auto_map=code, tokenizer_class="EvilTokenizer")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    if place == "tokenizer_config.json":
        with pytest.raises(ValueError, match=r"tokenizer_config\.json: auto_map names code.*no code .* is run"):
            load(directory)
    else:
        try:  # its model is one that this package computes, so its own code is not needed
            load(directory)
        except ValueError as error:
            assert "\n" not in str(error)
    assert not ran.exists()
    assert capsys.readouterr().out == ""


WRONG = [
    ("vocab_size", "256"),
    ("hidden_size", None),
    ("hidden_size", 32.0),
    ("intermediate_size", -1),
    ("num_attention_heads", 0),
    ("num_key_value_heads", 3),
    ("num_hidden_layers", -2),
    ("num_hidden_layers", True),
    ("head_dim", 7),
    ("max_position_embeddings", 1e12),
    ("max_position_embeddings", 10**12),
    ("rms_norm_eps", "1e-5"),
    ("rms_norm_eps", float("nan")),
    ("tie_word_embeddings", "false"),
    ("eos_token_id", ["2"]),
    ("rope_parameters", []),
    ("rope_parameters", {"rope_type": "bogus", "rope_theta": 10000.0}),
    ("rope_parameters", {"rope_type": "linear", "rope_theta": 10000.0, "factor": "2"}),
    ("rope_parameters", {"rope_type": "linear", "rope_theta": 10000.0}),
    ("rope_parameters", {"rope_type": "default", "rope_theta": 0}),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_a_wrong_value_in_config_json_is_named(directory: Path, key: str, value: object) -> None:
    edit(directory / "config.json", **{key: value})
    with pytest.raises(ValueError, match=r"config\.json.*" + ("head" if key == "head_dim" else key)) as caught:
        load(directory)
    assert len(str(caught.value).splitlines()) == 1


def test_a_missing_value_in_config_json_is_named(directory: Path) -> None:
    raw = json.loads((directory / "config.json").read_text())
    del raw["intermediate_size"]
    (directory / "config.json").write_text(json.dumps(raw))
    with pytest.raises(ValueError, match=r"config\.json lacks intermediate_size"):
        load(directory)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"\xff", b'{"a":' * 5000 + b"1" + b"}" * 5000],
    ids=["empty", "cut", "list", "utf", "deep"],
)
def test_a_broken_json_file_is_named(directory: Path, name: str, data: bytes) -> None:
    (directory / name).write_bytes(data)
    with pytest.raises(ValueError, match=name.replace(".", r"\.")) as caught:
        load(directory)
    assert len(str(caught.value).splitlines()) == 1


def test_a_tokenizer_that_is_none_or_missing_is_named(directory: Path) -> None:
    (directory / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "Bogus"}}')
    with pytest.raises(ValueError, match=r"tokenizer\.json is no tokenizer"):
        load(directory)
    (directory / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"holds no tokenizer; right is a tokenizer\.json"):
        load(directory)


Tensors = dict[str, torch.Tensor]


def with_nan(tensors: Tensors, name: str) -> None:
    tensors[name].view(-1)[3] = float("nan")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: with_nan(t, "model.embed_tokens.weight"), r"model\.embed_tokens\.weight holds values that are not"),
        (lambda t: with_nan(t, "model.layers.1.mlp.up_proj.weight"), r"layers\.1\.mlp\.up_proj\.weight holds values"),
        (lambda t: t["model.norm.weight"].fill_(float("inf")), r"model\.norm\.weight holds values"),
        (lambda t: t.update({"model.norm.weight": torch.ones(31)}), r"model\.norm\.weight is \(31,\)"),
        (lambda t: t.update({"lm_head.weight": t["lm_head.weight"][1:].clone()}), r"lm_head\.weight is \(256, 32\)"),
        (
            lambda t: t.update({"model.embed_tokens.weight": torch.ones(300, 32)}),
            r"model\.embed_tokens\.weight is \(300, 32\)",
        ),
        (
            lambda t: t.update({"model.norm.weight": torch.ones(32, dtype=torch.int8)}),
            r"model\.norm\.weight is torch\.int8; right is float16, bfloat16, float32 or float64",
        ),
        (lambda t: t.pop("model.norm.weight"), r"lacks tensors: model\.norm\.weight"),
        (lambda t: t.update({"model.layers.2.x": torch.ones(1)}), r"holds unknown tensors: model\.layers\.2\.x"),
    ],
)
def test_a_wrong_tensor_is_named(directory: Path, change: Callable[[Tensors], object], message: str) -> None:
    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors")
    with pytest.raises(ValueError, match=message):
        load(directory)


def test_a_tensor_in_two_files_is_refused(directory: Path) -> None:
    save_file({"model.norm.weight": torch.ones(32)}, directory / "other.safetensors")
    with pytest.raises(ValueError, match=r"other\.safetensors holds model\.norm\.weight, which another"):
        load(directory)


def test_large_weights_are_numbers(directory: Path) -> None:
    """Their sum overflows, they do not."""
    tensors = load_file(directory / "model.safetensors")
    tensors["model.norm.weight"].fill_(3e38)
    save_file(tensors, directory / "model.safetensors")
    load(directory)


@pytest.mark.parametrize("name", ["", "bogus", "cuda:99", "mps", "cpu:3", "meta", "cuda:-1", "x" * 5000])
def test_a_device_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(ValueError, match="is not available here; right is cpu") as caught:
        choose_device(name)
    assert len(str(caught.value)) < 250
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["", "x" * 5000, "/" + "x" * 5000, "~no-such-user-here/x"])
def test_a_target_of_no_name_or_an_endless_one_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"target"):
        load_target(name, device="cpu")


def test_half_a_character_is_no_text(whole: Path) -> None:
    target = load(whole)
    for encode in (target.encode, target.encode_chat):
        with pytest.raises(ValueError, match=r"holds '\\udcff' at character"):
            encode("a\udcff")
