"""The static doctor: healthy public files of every dialect are healthy, each damage is named, nothing raises."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from labsim.checkpoints.check import LONGEST_FINDING
from labsim.checkpoints.doctor import examine
from labsim.checkpoints.layers import read_layers
from labsim.checkpoints.on_disk import read_directory
from labsim.features.store import fingerprint

from .public_drafts import DIALECTS, FLAGS, Config, Tensors, diagnosed, names, public, target_directory, write

IDS = "eagle_aux_hidden_state_layer_ids"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("variant", FLAGS)
def test_a_healthy_public_draft_has_no_fault(tmp_path: Path, variant: str, dialect: str) -> None:
    found = diagnosed(tmp_path, variant=variant, dialect=dialect)
    assert names(found.checks, "fault") == [] and found.ok
    assert found.kind == ("eagle3.1" if variant == "eagle3.1" else "eagle3")
    words = {"nemo": "NeMo", "modelopt": "Model-Optimizer", "specforge": "SpecForge"}
    assert words.get(dialect, "speculators") in found.dialect
    # Model-Optimizer's list stands in one place, whose numbering engines read differently.
    assert names(found.checks, "warning") == (["feature layers: one place only"] if dialect == "modelopt" else [])


def ids(top: list[int] | None = None, inner: list[int] | None = None) -> Callable[[Config, Tensors], None]:
    def change(raw: Config, tensors: Tensors) -> None:
        if top is not None:
            raw[IDS] = top
        if inner is not None:
            raw["eagle_config"] = {IDS: inner}

    return change


# The target has 8 layers: usual are 2, 4, 5 as input, 1, 3, 4 as output.
@pytest.mark.parametrize(
    ("top", "inner", "read", "fault"),
    [
        ([2, 4, 5], None, (2, 4, 5), None),
        ([2, 4, 5], [1, 3, 4], (2, 4, 5), None),
        (None, [1, 3, 4], (2, 4, 5), None),
        ([1, 3, 4], None, (2, 4, 5), "feature layers: one off"),
        ([1, 3, 4], [1, 3, 4], (2, 4, 5), "feature layers: one off"),
        ([3, 5, 6], [2, 4, 5], (3, 5, 6), "feature layers: one off the usual"),
        ([2, 4, 5], [0, 2, 3], (2, 4, 5), "feature layers: places disagree"),
        ([2, 4, 5, 8], None, (2, 4, 5, 8), "feature layers: 4 of them"),
        ([2, 4], None, (2, 4), "feature layers: 2 of them"),
        ([2, 4, 9], None, (2, 4, 9), "feature layers: out of range"),
        ([2, 4, -1], None, (2, 4, -1), "feature layers: out of range"),
        ([2, 2, 5], None, (2, 2, 5), "feature layers: twice the same"),
        ([5, 4, 2], None, (5, 4, 2), "feature layers: not ascending"),
    ],
)
def test_layers_in_both_numberings(
    tmp_path: Path, top: list[int] | None, inner: list[int] | None, read: tuple[int, ...], fault: str | None
) -> None:
    found = diagnosed(tmp_path, ids(top, inner))
    assert [name for name in names(found.checks, "fault") if name.startswith("feature")] == ([fault] if fault else [])
    layers = read_layers(read_directory(tmp_path / "draft"), 8)
    assert layers is not None and layers.read == read


def test_the_last_layer_and_one_numbering_in_two_places_are_warnings(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, ids([2, 4, 8]))
    assert found.ok and names(found.checks, "warning") == ["feature layers: last among them"]
    found = diagnosed(tmp_path, ids([2, 4, 5], [2, 4, 5]))
    assert found.ok and names(found.checks, "warning") == ["feature layers: one numbering in both places"]


def test_the_projects_own_block_decides_and_must_agree(tmp_path: Path) -> None:
    def change(raw: Config, tensors: Tensors) -> None:
        raw |= {IDS: [2, 4, 5], "labsim": {"kind": "eagle3.1", "feature_layers": [2, 3, 6]}}

    assert names(diagnosed(tmp_path, change).checks, "fault") == ["feature layers: places disagree"]


def d2t(value: Callable[[torch.Tensor, Tensors], torch.Tensor]) -> Callable[[Config, Tensors], None]:
    return lambda raw, tensors: tensors.update(d2t=value(tensors["d2t"], tensors))


def absolute(offsets: torch.Tensor, tensors: Tensors) -> torch.Tensor:
    return offsets + torch.arange(len(offsets))


def put(name: str, at: object, value: object) -> Callable[[Config, Tensors], None]:
    return lambda raw, tensors: tensors[name].__setitem__(at, value)


def drop(*gone: str) -> Callable[[Config, Tensors], None]:
    return lambda raw, tensors: [tensors.pop(name) for name in gone]


def say(**values: Any) -> Callable[[Config, Tensors], None]:
    return lambda raw, tensors: raw.update(values)


def add(**tensors: torch.Tensor) -> Callable[[Config, Tensors], None]:
    return lambda raw, found: found.update({name.replace("__", "."): tensor for name, tensor in tensors.items()})


def both(*changes: Callable[[Config, Tensors], object]) -> Callable[[Config, Tensors], None]:
    return lambda raw, tensors: [change(raw, tensors) for change in changes]


def one_wrong_place(raw: Config, tensors: Tensors) -> None:
    t2d = tensors["t2d"]
    t2d[int(t2d.nonzero()[0])] = False
    t2d[int((~t2d).nonzero()[-1])] = True


HALF = torch.ones(20).half()
DAMAGE = {
    "d2t: zeros": d2t(lambda old, tensors: torch.zeros_like(old)),
    "d2t: absolute ids": d2t(absolute),
    "d2t: negative": d2t(lambda old, tensors: old - 3),
    "d2t: falls": put("d2t", 5, 14),
    "d2t: shape": d2t(lambda old, tensors: old.float()),
    "d2t: out of the vocabulary": both(put("d2t", -1, 30), drop("t2d")),
    "d2t: missing": drop("d2t"),
    "t2d: disagrees": one_wrong_place,
    "t2d: counted wrong": put("t2d", slice(None), True),
    "t2d: another vocabulary": add(t2d=torch.ones(29, dtype=torch.bool)),
    "norms: fc_norm missing": drop("fc_norm.1.weight"),
    "norms: fc_norm flag off": say(fc_norm=False, norm_output=False),
    "norms: both before fc": both(say(norm_before_fc=True), add(input_norm__weight=torch.randn(60).half())),
    "norms: input_norm missing": say(norm_before_fc=True, fc_norm=False),
    "norms: norm_before_fc off": add(input_norm__weight=torch.randn(60).half()),
    "norms: final norm missing": drop("norm.weight"),
    "norms: final norm switched off": say(eagle_config={"use_last_layernorm": False}, norm_output=False),
    "norms: nothing to feed back": both(say(eagle_config={"use_last_layernorm": False}), drop("norm.weight")),
    "tensors: missing": drop("midlayer.mlp.up_proj.weight"),
    "tensors: surplus": add(midlayer__self_attn__q_norm__weight=torch.randn(8).half()),
    "tensors: shape": add(fc__weight=torch.randn(24, 40).half()),
    "tensors: twice": lambda raw, tensors: tensors.update(
        {"layers.0.mlp.up_proj.weight": tensors["midlayer.mlp.up_proj.weight"].clone()}
    ),
    "values: not numbers": put("midlayer.mlp.up_proj.weight", (0, 0), float("nan")),
    "values: zero": put("midlayer.mlp.up_proj.weight", slice(None), 0),
    "values: rows of one value": put("midlayer.mlp.up_proj.weight", slice(0, 2), 0),
    "values: scale": put("midlayer.self_attn.o_proj.weight", (3, 3), 6e4),
    "values: type": add(fc__weight=torch.ones(24, 60, dtype=torch.int8)),
    "config.json: architectures": say(architectures=["LlamaForCausalLM"], labsim={"kind": "eagle3.1"}),
    "config.json: num_aux_hidden_states": say(num_aux_hidden_states=2),
    "config.json: kind": say(labsim={"kind": "eagle9"}),
    "rope: cannot be computed": say(rope_scaling={"rope_type": "linear"}),
    "embeddings: tied": say(tie_word_embeddings=True),
    "rope: disagrees with itself": say(rope_parameters={"rope_type": "default", "rope_theta": 5e5}),
    "config.json: values": say(num_attention_heads="4"),
    "sizes: vocabulary": say(vocab_size=32),
    "sizes: target width": say(target_hidden_size=21),
    "feature layers: no list": say(**{IDS: "2,4,5"}),
    "target: another": say(labsim={"target": "nano", "kind": "eagle3.1"}),
}  # fmt: skip


@pytest.mark.parametrize("fault", [name for name in DAMAGE if not name.startswith("target")])
def test_each_damage_is_named(tmp_path: Path, fault: str) -> None:
    found = diagnosed(tmp_path, DAMAGE[fault])
    assert not found.ok
    hits = [check for check in found.faults if check.name == fault]
    assert len(hits) == 1, names(found.checks, "fault")
    assert hits[0].finding and hits[0].symptom and hits[0].remedy


@pytest.mark.parametrize(
    ("fault", "change"),
    [
        ("d2t: out of the vocabulary", both(d2t(lambda old, tensors: torch.full_like(old, 2**63 - 1)), drop("t2d"))),
        ("tensors: surplus", add(fc_norm__3__weight=HALF)),
        ("values: type", add(fc__weight=torch.ones(24, 60).to(torch.float8_e4m3fn))),
        ("values: rows of one value", put("fc.weight", 7, 0.25)),
        ("values: scale", lambda raw, tensors: tensors["midlayer.mlp.down_proj.weight"].mul_(3e3)),
        ("values: scale", put("midlayer.hidden_norm.weight", 5, 4e4)),
        ("values: type", add(norm__weight=torch.ones(24).to(torch.float8_e8m0fnu))),
        ("weights: empty", lambda raw, tensors: tensors.clear()),
        ("config.json: unreadable", lambda raw, tensors: raw.clear()),
        ("rope: cannot be computed", say(rope_scaling={"rope_type": "llama3"})),
        ("config.json: values", say(rope_parameters={"full_attention": {"rope_theta": 1e4}})),
    ],
)
def test_other_shapes_of_a_damage_have_its_name(
    tmp_path: Path, fault: str, change: Callable[[Config, Tensors], object]
) -> None:
    assert fault in names(diagnosed(tmp_path, change).checks, "fault")


@pytest.mark.parametrize(
    ("warned", "change"),
    [
        ("norms: exactly 1", put("midlayer.hidden_norm.weight", slice(None), 1)),
        ("norms: half of 3.1", say(norm_output=False)),
        ("max positions: below the target's", say(max_position_embeddings=32)),
        ("max positions: absent", lambda raw, tensors: raw.pop("max_position_embeddings")),
        ("rope: theta", say(rope_theta=5e5)),
        ("rope: scaling", say(rope_scaling={"type": "yarn", "factor": 32.0})),
        ("dtype: not the named one", say(torch_dtype="bfloat16")),
        ("dtype: mixed", add(norm__weight=torch.rand(24) + 0.5)),
        ("values: rows of one value in the head", put("lm_head.weight", 4, 0)),
        ("d2t: not ascending", d2t(lambda old, tensors: absolute(old, tensors).flip(0) - torch.arange(len(old)))),
        ("d2t: zeros", lambda raw, tensors: tensors.update(d2t=torch.zeros(17).long(), t2d=torch.arange(31) < 17)),
    ],
)
def test_what_may_be_meant_is_a_warning(
    tmp_path: Path, warned: str, change: Callable[[Config, Tensors], object]
) -> None:
    found = diagnosed(tmp_path, change)
    assert found.ok, names(found.checks, "fault")
    assert warned in names(found.checks, "warning")


def test_all_faults_are_found_not_the_first_one(tmp_path: Path) -> None:
    wanted = [
        "d2t: zeros",
        "norms: fc_norm missing",
        "values: not numbers",
        "embeddings: tied",
        "feature layers: one off",
    ]
    changes = [DAMAGE[name] for name in wanted[:-1]] + [ids([1, 3, 4])]
    found = names(diagnosed(tmp_path, both(*changes)).checks, "fault")
    assert set(wanted) <= set(found)


def test_a_named_target_that_is_another(tmp_path: Path) -> None:
    config, tensors = public()
    DAMAGE["target: another"](config, tensors)
    write(tmp_path / "draft", config, tensors)
    # A directory may be the same model under another name.
    found = examine(tmp_path / "draft", target_directory(tmp_path / "target"), run=False)
    assert "target: another" in names(found.checks, "warning")
    config["labsim"]["target"] = "smollm2"
    write(tmp_path / "draft", config, tensors)
    assert "target: another" in names(examine(tmp_path / "draft", "nano", run=False).checks, "fault")


def test_template_and_tokenizer_beside_the_draft(tmp_path: Path) -> None:
    config, tensors = public()
    draft, target = write(tmp_path / "draft", config, tensors), target_directory(tmp_path / "target")
    for directory, template, vocab in ((Path(target), "{{ x }}", {"a": 0}), (draft, "{{ x }}", {"a": 0})):
        (directory / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
        (directory / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}}))
    assert examine(draft, target, run=False).ok
    (draft / "chat_template.jinja").write_text("{{ y }}")
    assert names(examine(draft, target, run=False).checks, "fault") == ["template: differs"]
    (draft / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"b": 0}}}))
    assert names(examine(draft, target, run=False).checks, "fault") == ["template: differs", "tokenizer: differs"]
    (draft / "tokenizer.json").write_text("{")
    assert "tokenizer: unreadable" in names(examine(draft, target, run=False).checks, "warning")


def test_answers_of_other_weights_under_the_same_name(tmp_path: Path) -> None:
    config, tensors = public()
    draft, target = write(tmp_path / "draft", config, tensors), target_directory(tmp_path / "target")
    save_file({"model.norm.weight": torch.ones(20)}, tmp_path / "target" / "model.safetensors")
    here = fingerprint(tmp_path / "target")
    for weights, faults in ((here, []), (None, []), ("0123456789ab", ["target: other weights"])):
        (draft / "recipe.json").write_text(json.dumps({"data": [{"weights": weights}]}))
        assert names(examine(draft, target, run=False).checks, "fault") == faults
    (draft / "recipe.json").write_text(json.dumps({"data": [{"weights": [here]}]}))
    assert names(examine(draft, target, run=False).checks, "fault") == []
    (draft / "recipe.json").write_text("[]")
    assert "recipe: unreadable" in names(examine(draft, target, run=False).checks, "warning")


class Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, ("raise SystemExit('the pickle ran')",)


def test_damaged_files_are_findings(tmp_path: Path) -> None:
    config, tensors = public()
    draft, target = write(tmp_path / "draft", config, tensors), target_directory(tmp_path / "target")
    good = (draft / "model.safetensors").read_bytes()

    def faults() -> list[str]:
        return names(examine(draft, target, run=False).checks, "fault")

    (draft / "model.safetensors").write_bytes(good[:-9])
    assert faults() == ["weights: damaged"]
    (draft / "model.safetensors").unlink()
    for name in ("pytorch_model.bin", "draft.pt"):
        (draft / name).write_bytes(pickle.dumps(Bomb()))
    assert faults() == ["weights: no safetensors"]
    (draft / "model.safetensors").write_bytes(good)
    assert names(examine(draft, target, run=False).checks, "warning") == ["weights: pickles beside them"]
    index = {"weight_map": {"fc.weight": "model-00001-of-00002.safetensors", "norm.weight": "model.safetensors"}}
    (draft / "model.safetensors.index.json").write_text(json.dumps(index))
    assert faults() == ["weights: shard missing"]
    (draft / "config.json").write_text('{"a":')
    assert {"config.json: unreadable", "weights: shard missing"} <= set(faults())
    (draft / "config.json").unlink()
    assert "config.json: unreadable" in faults()
    (draft / "config.json").write_text(json.dumps({"speculators_model_type": "dflash"}))
    assert "config.json: kind" in faults()


def test_names_from_a_file_stay_on_their_line(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, add(**{"\x1b[31m\nred": HALF}), dialect="specforge")
    finding = next(check.finding for check in found.faults if check.name == "tensors: surplus")
    assert finding.isprintable() and r"\x1b[31m\nred" in finding
    for key in ("hidden_act", "rope_theta", "torch_dtype", "speculators_model_type"):
        found = diagnosed(tmp_path, say(**{key: "x" * 5000}))
        assert all(len(check.finding) <= LONGEST_FINDING for check in found.checks)


def test_what_is_no_file_is_no_wait(tmp_path: Path) -> None:
    """Opening a pipe waits for somebody to write into it."""
    config, tensors = public()
    draft, target = write(tmp_path / "draft", config, tensors), target_directory(tmp_path / "target")
    for name, fault in (("model.safetensors", "weights: damaged"), ("config.json", "config.json: unreadable")):
        (draft / name).unlink()
        os.mkfifo(draft / name)
        assert fault in names(examine(draft, target, run=False).checks, "fault")


def test_odd_names_of_directories_are_refused(tmp_path: Path) -> None:
    target = target_directory(tmp_path / "target")
    for name in ("~no-such-user/draft", "x" * 5000, str(tmp_path / "target" / "config.json")):
        with pytest.raises(ValueError, match="is no directory") as refused:
            examine(name, target, run=False)
        assert len(str(refused.value)) < 300
    config, tensors = public()
    draft = write(tmp_path / "päth with späces", config, tensors)
    index = {"weight_map": {"fc.weight": "x" * 5000, "a\0": "b\0"}}
    (draft / "model.safetensors.index.json").write_text(json.dumps(index))
    assert names(examine(draft, target, run=False).checks, "fault") == ["weights: shard missing"]


def test_two_files_with_one_tensor(tmp_path: Path) -> None:
    config, tensors = public()
    draft = write(tmp_path / "draft", config, tensors)
    save_file({"fc.weight": tensors["fc.weight"]}, draft / "more.safetensors")
    assert names(examine(draft, target_directory(tmp_path / "target"), run=False).checks, "fault") == ["tensors: twice"]


@pytest.mark.parametrize("value", [None, True, -1, 0, 1e400, "x", [], [None], {}, {"a": 1}], ids=repr)
@pytest.mark.parametrize("dialect", ["specforge", "speculators", "modelopt"])
def test_no_value_of_config_json_raises(tmp_path: Path, dialect: str, value: object) -> None:
    config, tensors = public(dialect=dialect)
    draft, target = write(tmp_path / "draft", config, tensors), target_directory(tmp_path / "target")
    inner = [(block, key) for block in config if isinstance(config[block], dict) for key in config[block]]
    more = [(None, key) for key in ("labsim", "eagle_config", "rope_parameters", "speculators_config", "fc_norm", IDS)]
    for block, key in [*((None, key) for key in config), *inner, *more]:
        changed = config | {key: value} if block is None else config | {block: config[block] | {key: value}}
        (draft / "config.json").write_text(json.dumps(changed))
        assert examine(draft, target, run=False).document()["checks"]


def test_no_damaged_tensor_raises(tmp_path: Path) -> None:
    config, tensors = public()
    target = target_directory(tmp_path / "target")
    for name in list(tensors):
        for strange in (torch.zeros(0), torch.zeros(()), torch.ones(3, 3, 3), torch.ones(2, dtype=torch.bool)):
            draft = write(tmp_path / "draft", config, tensors | {name: strange})
            assert not examine(draft, target, run=False).ok


def test_other_kinds_are_looked_at_too() -> None:
    for name, kind in (("nano-mtp", "mtp"), ("nano-small", "small"), ("nano-eagle3.1", "eagle3.1")):
        directory = Path(__file__).resolve().parents[2] / "data" / "drafts" / name
        found = examine(directory, "nano", run=False)
        assert found.ok and found.kind == kind
        assert names(found.checks, "warning") == []


def test_a_spoilt_mtp_and_small_draft_are_named(tmp_path: Path) -> None:
    drafts = Path(__file__).resolve().parents[2] / "data" / "drafts"
    for name, key, fault in (
        ("nano-mtp", "mtp_layers.0.input_proj.weight", "tensors: missing"),
        ("nano-small", "model.layers.0.mlp.up_proj.weight", "small draft: refused"),
    ):
        tensors = load_file(drafts / name / "model.safetensors")
        del tensors[key]
        config = json.loads((drafts / name / "config.json").read_text())
        assert names(examine(write(tmp_path / name, config, tensors), "nano", run=False).checks, "fault") == [fault]
