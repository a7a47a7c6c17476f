"""Draft directories of every kind that do not fit: each is refused by one line that names file, key or tensor."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from labsim.drafts.eagle_checkpoint import draft_kind, save_draft
from labsim.drafts.load import load_drafter
from labsim.drafts.shape import DynamicTree
from labsim.drafts.vocabulary import DraftVocabulary
from labsim.models.load import Target
from tests.tiny_llama import tiny_llama

from .conftest import TINY_VOCAB
from .feature_drafts import KINDS, build

IDS = [0, 2, 3, 6]
Tensors = dict[str, torch.Tensor]


@pytest.fixture
def small(tiny_target: Target, tmp_path: Path) -> Path:
    """A small draft over IDS that reads its target's embedding, as `labsim train-small` writes them."""
    directory = tmp_path / "small"
    tiny_llama(directory, seed=3, vocab_size=TINY_VOCAB)
    tensors = load_file(directory / "model.safetensors")
    del tensors["model.embed_tokens.weight"]
    vocabulary = DraftVocabulary.of(IDS, TINY_VOCAB)
    tensors |= {"lm_head.weight": tensors["lm_head.weight"][IDS], "d2t": vocabulary.d2t, "t2d": vocabulary.t2d}
    save_file(tensors, directory / "model.safetensors")
    about = {"kind": "small", "target": "tiny", "embedding": "target"}
    edit(directory, draft_vocab_size=len(IDS), labsim=about)
    return directory


def edit(directory: Path, **changes: Any) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def refused(directory: Path, target: Target, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        load_drafter(str(directory), target)
    assert str(directory) in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_the_undamaged_one_loads(small: Path, tiny_target: Target) -> None:
    drafter = load_drafter(str(small), tiny_target)
    assert drafter.target_ids_N.tolist() == IDS


def poison(value: float) -> Callable[[Tensors], None]:
    return lambda tensors: tensors["model.layers.1.mlp.up_proj.weight"][0, 0].fill_(value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (poison(float("nan")), r"layers\.1\.mlp\.up_proj\.weight holds values that are not numbers"),
        (poison(float("inf")), r"layers\.1\.mlp\.up_proj\.weight holds values that are not numbers"),
        (lambda t: t["d2t"].fill_(-1), "d2t must hold offsets"),
        (lambda t: t["d2t"].fill_(100), "d2t leads to the target id"),
        (lambda t: t["d2t"].fill_(2**62), "d2t leads to the target id"),
        (lambda t: t.update(d2t=t["d2t"].float()), r"d2t is torch\.float32"),
        (lambda t: t.update(d2t=t["d2t"][:-1].clone()), "d2t names 3 tokens"),
        (lambda t: t.pop("d2t"), "lacks d2t"),
        (lambda t: t["t2d"].logical_not_(), "t2d and d2t name different tokens"),
        (lambda t: t.update({"model.layers.0.extra": torch.ones(1)}), r"unknown tensors: model\.layers\.0\.extra"),
        (lambda t: t.update(stray=torch.ones(1)), "unknown tensors: stray"),
        (lambda t: t.pop("model.norm.weight"), r"lacks tensors: model\.norm\.weight"),
        (lambda t: t.pop("lm_head.weight"), r"lacks tensors: lm_head\.weight"),
        (lambda t: t.update({"lm_head.weight": torch.ones(5, 16)}), r"lm_head\.weight is \(5, 16\)"),
        (lambda t: t.update({"model.norm.weight": torch.ones(16, dtype=torch.int32)}), r"is torch\.int32"),
    ],
)
def test_a_small_drafts_wrong_tensor_is_named(
    small: Path, tiny_target: Target, change: Callable[[Tensors], object], message: str
) -> None:
    tensors = load_file(small / "model.safetensors")
    change(tensors)
    save_file(tensors, small / "model.safetensors")
    refused(small, tiny_target, message)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num_hidden_layers", 1, r"unknown tensors: model\.layers\.1"),
        ("num_hidden_layers", 3, r"lacks tensors: model\.layers\.2"),
        ("vocab_size", 8, "drafts for a vocabulary of 8"),
        ("hidden_size", 32, "hidden_size is 32; right is 16"),
        ("draft_vocab_size", "4", "draft_vocab_size is '4'"),
        ("draft_vocab_size", 8, "draft_vocab_size is 8"),
        ("max_position_embeddings", 1e12, "max_position_embeddings is 1000000000000"),
        ("labsim", 1, "labsim is 1; right is an object"),
        ("labsim", {"kind": []}, r"labsim\.kind is \[\]"),
        ("labsim", {"kind": "small", "embedding": "mine"}, r"labsim\.embedding is 'mine'"),
        ("labsim", {"kind": "small", "target": "other"}, "was trained for 'other'"),
    ],
)
def test_a_small_drafts_wrong_value_is_named(
    small: Path, tiny_target: Target, key: str, value: object, message: str
) -> None:
    edit(small, **{key: value})
    refused(small, tiny_target, message)


@pytest.fixture(params=KINDS)
def trained(request: pytest.FixtureRequest, tiny_target: Target, tmp_path: Path) -> Path:
    """A draft of each kind that reads states, undamaged."""
    draft, vocabulary = build(request.param, tiny_target)
    save_draft(tmp_path / "draft", draft, vocabulary, "tiny")
    return tmp_path / "draft"


WRONG = [
    ("hidden_size", "16"),
    ("vocab_size", None),
    ("draft_vocab_size", 0),
    ("draft_vocab_size", 1000),
    ("num_attention_heads", 0),
    ("num_key_value_heads", -1),
    ("num_hidden_layers", -1),
    ("intermediate_size", "24"),
    ("head_dim", 5),
    ("max_position_embeddings", 1e12),
    ("rms_norm_eps", None),
    ("rope_theta", "10000"),
    ("rope_scaling", {"rope_type": "bogus"}),
    ("rope_scaling", {"rope_type": "linear"}),
    ("attention_bias", "no"),
    ("medusa_num_heads", 0),
    ("labsim", "eagle3"),
    ("labsim", {"kind": 3}),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_a_wrong_value_of_any_kind_is_named(trained: Path, tiny_target: Target, key: str, value: object) -> None:
    raw = json.loads((trained / "config.json").read_text())
    if key not in raw:
        pytest.skip("this kind has no such key")
    edit(trained, **{key: value})
    named = {"head_dim": "heads", "num_hidden_layers": "layers"}.get(key, key)
    refused(trained, tiny_target, rf"config\.json.*{named}")


def test_a_feature_layer_that_is_not_there_is_named(trained: Path, tiny_target: Target) -> None:
    own = json.loads((trained / "config.json").read_text())["labsim"]
    if own["kind"] == "heads":
        pytest.skip("heads read the last layer")
    edit(trained, labsim=own | {"feature_layers": [99] * len(own["feature_layers"])})
    refused(trained, tiny_target, r"labsim\.feature_layers is \[99")


class Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, ("raise SystemExit('the pickle ran')",)


@pytest.mark.parametrize("damage", ["pickle", "empty", "truncated", "directory", "loop"])
@pytest.mark.parametrize("stray", [False, True], ids=["alone", "beside a good one"])
def test_a_file_of_weights_that_is_none_is_named(small: Path, tiny_target: Target, damage: str, stray: bool) -> None:
    good = (small / "model.safetensors").read_bytes()
    path = small / ("stray.safetensors" if stray else "model.safetensors")
    path.unlink(missing_ok=True)
    if damage == "directory":
        path.mkdir()
    elif damage == "loop":
        path.symlink_to(path.name)
    else:
        path.write_bytes({"pickle": pickle.dumps(Bomb()), "empty": b"", "truncated": good[:-9]}[damage])
    said = "is no regular file" if damage == "directory" else "is not a whole safetensors file"
    for load in (draft_kind, lambda directory: load_drafter(str(directory), tiny_target)):
        with pytest.raises(ValueError, match=rf"{path.name} {said}"):
            load(small)


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"a":' * 5000], ids=["empty", "list", "utf", "deep"])
def test_a_broken_config_of_a_draft_is_named(small: Path, tiny_target: Target, data: bytes) -> None:
    (small / "config.json").write_bytes(data)
    refused(small, tiny_target, r"config\.json")


@pytest.mark.parametrize("name", ["", "x" * 5000, "~no-such-user-here/x"])
def test_a_draft_of_no_name_or_an_endless_one_is_refused(tiny_target: Target, name: str) -> None:
    with pytest.raises(ValueError, match=r"draft '.*' is neither none, ngram") as caught:
        load_drafter(name, tiny_target)
    assert len(str(caught.value)) < 400


def test_a_dynamic_tree_has_a_bound() -> None:
    DynamicTree(8, 64, 16)
    with pytest.raises(ValueError, match=r"ranks 1000000 candidates .* right is at most 32768"):
        DynamicTree(1, 1000, 16)
