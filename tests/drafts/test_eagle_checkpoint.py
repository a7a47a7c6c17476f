"""Public checkpoints, written by hand in both layouts and all dialects, load unchanged and compute what the reference
computes from the same tensors; whatever is missing, surplus or of another model is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from labsim.decode.generate import generate_batch
from labsim.drafts import load
from labsim.drafts.eagle_checkpoint import draft_kind, load_draft, save_draft
from labsim.drafts.eagle_config import EagleConfig, default_feature_layers
from labsim.drafts.eagle_dialects import feature_layers
from labsim.drafts.rotary import frequencies, rope_settings
from labsim.drafts.shape import Chain
from labsim.drafts.vocabulary import DraftVocabulary
from labsim.models.config import ModelConfig
from labsim.models.load import Target

from .eagle_cases import DRAFT_VOCAB, SIZE, TARGET_SIZE, VOCAB, make, text
from .feature_drafts import KINDS, build
from .test_eagle import LENGTH, by_reference, by_ttt

TARGET = ModelConfig("llama", VOCAB, TARGET_SIZE, 36, 8, 4, 2, 8, 128, 1e-5, False)
IDS = sorted([0, 1, 3, 4, 7, 9, 10, 12, 13, 15, 18, 20, 22, 23, 26, 28, 30])
VOCABULARY = DraftVocabulary.of(IDS, VOCAB)
LAYER = {
    "vocab_size": VOCAB,
    "num_hidden_layers": 1,
    "hidden_size": SIZE,
    "intermediate_size": 36,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 64,
}
SPECIFORGE = LAYER | {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "draft_vocab_size": DRAFT_VOCAB,
    "target_hidden_size": TARGET_SIZE,
    "rope_theta": 10000,
    "rope_scaling": None,
}
SPECULATORS = {
    "architectures": ["Eagle3DraftModel"],
    "speculators_model_type": "eagle3",
    "speculators_version": "0.9.0",
    "transformer_layer_config": LAYER | {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}},
    "draft_vocab_size": DRAFT_VOCAB,
    "target_hidden_size": TARGET_SIZE,
    "eagle_aux_hidden_state_layer_ids": [2, 4, 5],
}
MODELOPT = SPECIFORGE | {
    "eagle_config": {
        "eagle_aux_hidden_state_layer_ids": [1, 3, 4],
        "use_aux_hidden_state": True,
        "use_input_layernorm_in_first_layer": True,
        "use_last_layernorm": True,
        "use_mtp_layernorm": False,
        "next_layer_regular": True,
        "parallel_draft_step": 1,
    }
}


def tensors_of(variant: str) -> dict[str, torch.Tensor]:
    """float32 tensors under the public names of the first layout, with their mapping."""
    state = make(variant).draft.state_dict()
    tensors = {name: tensor.float().contiguous() for name, tensor in state.items()}
    return tensors | {"d2t": torch.tensor(IDS) - torch.arange(DRAFT_VOCAB), "t2d": VOCABULARY.t2d}


def renamed(tensors: dict[str, torch.Tensor], old: str, new: str, *, under: str = "") -> dict[str, torch.Tensor]:
    top = ("lm_head.weight", "d2t", "t2d")
    return {
        (name if name in top else under) + name.replace(old, new, 1) if name not in top else name: tensor
        for name, tensor in tensors.items()
    }


def write(directory: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    save_file(tensors, directory / "model.safetensors")
    return directory


def read(directory: Path, dtype: torch.dtype = torch.float64) -> Any:
    return load_draft(directory, target=TARGET, embedding_VH=make("eagle3").draft.embedding_VH, dtype=dtype)


LAYOUTS = {
    "midlayer": lambda t: t,
    "layers.0": lambda t: renamed(t, "midlayer.", "layers.0."),
    "model.layers.0": lambda t: renamed(t, "midlayer.", "layers.0.", under="model."),
    "without t2d": lambda t: {name: tensor for name, tensor in t.items() if name != "t2d"},
}
DIALECTS = {"specforge": SPECIFORGE, "speculators": SPECULATORS, "modelopt": MODELOPT}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("variant", "flags"),
    [
        ("eagle3", ()),
        ("eagle3.1", ("fc_norm", "norm_output")),
        ("eagle3 gpt-oss", ("norm_before_fc", "norm_before_residual")),
        ("eagle3 biased", ("attention_bias",)),
    ],
)
def test_a_public_checkpoint_loads_unchanged(
    tmp_path: Path, variant: str, flags: tuple[str, ...], layout: str, dialect: str
) -> None:
    config = DIALECTS[dialect] | dict.fromkeys(flags, True)
    if "attention_bias" in flags and "transformer_layer_config" in config:
        config = config | {"transformer_layer_config": config["transformer_layer_config"] | {"attention_bias": True}}
    directory = write(tmp_path, config, LAYOUTS[layout](tensors_of(variant)))
    assert draft_kind(directory) == "eagle3"
    loaded = read(directory)
    case = make(variant)
    case.reference.weights = {name: tensor.double() for name, tensor in tensors_of(variant).items()}
    assert loaded.draft.config.kind == ("eagle3.1" if variant == "eagle3.1" else "eagle3")
    assert loaded.draft.config.feature_layers == (2, 4, 5) and loaded.vocabulary.ids_N.tolist() == IDS
    tokens, features = text(loaded.draft, 1, LENGTH - 3)
    right = by_reference(case.reference, tokens, features)
    assert float((by_ttt(loaded.draft, tokens, features)[:, : right.shape[1]] - right).abs().max()) < 1e-10


def test_an_eagle_1_checkpoint_is_known_by_its_joining_layer(tmp_path: Path) -> None:
    case = make("eagle1")
    tensors = {name: tensor.float() for name, tensor in case.draft.state_dict().items()}
    config = LAYER | {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "bias": True}
    directory = write(tmp_path, config, renamed(tensors, "midlayer.", "layers.0."))
    assert draft_kind(directory) == "eagle1"
    target = ModelConfig("llama", VOCAB, SIZE, 36, 8, 4, 2, 8, 128, 1e-5, False)
    draft = load_draft(directory, target=target, embedding_VH=case.draft.embedding_VH, head_VH=case.draft.head_VH).draft
    for name, tensor in draft.state_dict().items():
        assert torch.equal(tensor, tensors[name].double())
    assert draft.config.feature_layers == (8,)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read_back(tmp_path: Path, tiny_target: Target, kind: str) -> None:
    draft, vocabulary = build(kind, tiny_target)
    save_draft(tmp_path / "draft", draft, vocabulary, "tiny")
    loaded = load_draft(
        tmp_path / "draft", target=tiny_target.model.config, embedding_VH=tiny_target.model.embedding_VE
    )
    assert loaded.draft.config == draft.config and loaded.target == "tiny"
    assert loaded.draft.config.kind == kind
    assert torch.equal(loaded.vocabulary.ids_N, vocabulary.ids_N)
    for name, tensor in draft.state_dict().items():
        assert torch.equal(loaded.draft.state_dict()[name], tensor.half().double()), name


def test_eagle_3_1_is_written_in_the_public_layout(tmp_path: Path, tiny_target: Target) -> None:
    draft, vocabulary = build("eagle3.1", tiny_target)
    save_draft(tmp_path, draft, vocabulary, "tiny")
    tensors = load_file(tmp_path / "model.safetensors")
    layer = [f"midlayer.{leaf}.weight" for leaf in ("input_layernorm", "hidden_norm", "post_attention_layernorm")]
    layer += [f"midlayer.self_attn.{leaf}_proj.weight" for leaf in "qkvo"]
    layer += [f"midlayer.mlp.{leaf}_proj.weight" for leaf in ("gate", "up", "down")]
    norms = [f"fc_norm.{i}.weight" for i in range(3)]
    assert set(tensors) == {*layer, *norms, "fc.weight", "norm.weight", "lm_head.weight", "d2t", "t2d"}
    assert tensors["midlayer.self_attn.q_proj.weight"].shape == (16, 32)
    assert tensors["fc.weight"].shape == (16, 48)
    assert tensors["fc.weight"].dtype == torch.float16
    assert (tensors["d2t"].dtype, tensors["t2d"].dtype) == (torch.int64, torch.bool)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLMEagle3"] and config["draft_vocab_size"] == 5
    assert config["fc_norm"] is True and config["norm_output"] is True and config["norm_before_residual"] is False
    assert config["eagle_aux_hidden_state_layer_ids"] == [1, 2, 3]
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [0, 1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    # Other readers know nothing of the `labsim` entry; the rest must say the same.
    del config["labsim"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    again = load_draft(tmp_path, target=tiny_target.model.config, embedding_VH=tiny_target.model.embedding_VE)
    assert again.draft.config == draft.config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("fc_norm.1.weight"), "lacks tensors: fc_norm.1.weight"),
        (lambda t: t.pop("midlayer.hidden_norm.weight"), "lacks tensors: midlayer.hidden_norm.weight"),
        (lambda t: t.update({"input_norm.weight": torch.ones(60)}), "holds unknown tensors: input_norm.weight"),
        (
            lambda t: t.update({"norm.weight": torch.ones(23)}),
            r"norm.weight is \(23,\), and config.json makes it \(24,\)",
        ),
        (lambda t: t["fc.weight"].fill_(torch.nan), "fc.weight holds values that are not numbers"),
        (lambda t: t.pop("d2t"), "drafts 17 of 31 tokens and lacks d2t"),
        (lambda t: t["d2t"].zero_(), "t2d and d2t name different tokens"),
        (lambda t: t.update({"layers.0.hidden_norm.weight": torch.ones(24)}), "midlayer.hidden_norm.weight twice"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(tmp_path: Path, change: Any, message: str) -> None:
    tensors = tensors_of("eagle3.1")
    change(tensors)
    directory = write(tmp_path, SPECIFORGE | {"fc_norm": True, "norm_output": True}, tensors)
    with pytest.raises(ValueError, match=message):
        read(directory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 32}, "a draft for 32 tokens, and the target has 31"),
        ({"target_hidden_size": 16}, "states of width 16, and the target's are 20 wide"),
        ({"num_hidden_layers": 2}, "has 2 draft layers"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
        (
            {"eagle_aux_hidden_state_layer_ids": [2, 4, 5, 8]},
            "fuses 3 target layers.*the last layer, kept for the teacher",
        ),
        ({"eagle_aux_hidden_state_layer_ids": [2, 4, 9]}, "after layer 9, and the target has 8"),
        ({"fc_norm": True, "norm_before_fc": True}, "fc_norm and norm_before_fc exclude each other"),
        ({"eagle_config": {"use_mtp_layernorm": True}}, "use_mtp_layernorm is True; False is what is computed"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "'dynamic' changes with the length"),
        ({"draft_vocab_size": 16}, "d2t names 17 tokens, and config.json says draft_vocab_size 16"),
        ({"speculators_model_type": "dflash", "architectures": []}, "speculators draft of the kind 'dflash'"),
    ],
)
def test_a_config_that_does_not_fit_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path, SPECIFORGE | change, tensors_of("eagle3")))


@pytest.mark.parametrize(
    ("raw", "layers"),
    [
        ({}, (2, 16, 29)),
        ({"eagle_aux_hidden_state_layer_ids": [2, 16, 29]}, (2, 16, 29)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 15, 28]}}, (2, 16, 29)),
        # The usual lists are known wherever they stand: converters copy them up without counting anew.
        ({"eagle_aux_hidden_state_layer_ids": [1, 15, 28]}, (2, 16, 29)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 16, 29]}}, (2, 16, 29)),
        # Others by their place.
        ({"eagle_aux_hidden_state_layer_ids": [3, 10, 20]}, (3, 10, 20)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [3, 10, 20]}}, (4, 11, 21)),
    ],
)
def test_both_numberings_of_the_feature_layers(raw: dict[str, Any], layers: tuple[int, ...]) -> None:
    assert feature_layers(raw, 32, "x") == layers


def test_two_lists_that_disagree_are_refused() -> None:
    both = {
        "eagle_aux_hidden_state_layer_ids": [3, 10, 20],
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [3, 10, 20]},
    }
    with pytest.raises(
        ValueError, match=r"at the top means the layers \[3, 10, 20\] and inside eagle_config \[4, 11, 21\]"
    ):
        feature_layers(both, 32, "x")
    assert default_feature_layers(32) == (2, 16, 29) and default_feature_layers(4) == (1, 2, 3)
    with pytest.raises(ValueError, match="a target of 3 layers"):
        default_feature_layers(3)


def test_a_diverged_draft_is_not_written(tmp_path: Path, tiny_target: Target) -> None:
    draft, vocabulary = build("eagle3", tiny_target)
    with torch.no_grad():
        draft.fc.weight[0, 0] = 1e6  # beyond fp16
    with pytest.raises(ValueError, match=r"fc.weight holds values that are not numbers in torch\.float16"):
        save_draft(tmp_path / "draft", draft, vocabulary, "tiny")
    assert not (tmp_path / "draft").exists()


def test_a_checkpoints_own_embedding_is_used_and_written_again(tmp_path: Path) -> None:
    own = torch.randn(VOCAB, SIZE)
    directory = write(tmp_path / "a", SPECIFORGE, tensors_of("eagle3") | {"embed_tokens.weight": own})
    loaded = read(directory)
    assert torch.equal(loaded.draft.embedding_VH, own.double())
    save_draft(tmp_path / "b", loaded.draft, loaded.vocabulary, "tiny")
    assert torch.equal(load_file(tmp_path / "b" / "model.safetensors")["embed_tokens.weight"], own.half())


# --- rope -----------------------------------------------------------------------------------------------------------


def test_rope_is_read_in_both_spellings() -> None:
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    llama3 |= {"original_max_position_embeddings": 32}
    apart = rope_settings({"rope_theta": 500000.0, "rope_scaling": llama3})
    together = rope_settings({"rope_parameters": llama3 | {"rope_theta": 500000.0}})
    assert apart == together == {"rope_theta": 500000.0, "rope_scaling": llama3}
    plain, scale = frequencies({"rope_theta": 500000.0}, 16, 64)
    scaled, _ = frequencies(apart, 16, 64)
    assert scale == 1.0
    assert torch.allclose(plain[0], scaled[0].double()), "short waves are left alone"
    assert float(scaled[-1]) == pytest.approx(float(plain[-1]) / 8), "long ones are stretched by the factor"
    yarn = {"rope_theta": 10000.0, "rope_scaling": {"type": "yarn", "factor": 4.0}}
    assert frequencies(yarn, 16, 64)[1] == pytest.approx(0.1 * torch.tensor(4.0).log().item() + 1)


# --- by name, for `labsim generate` ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_shipped_draft_is_found_by_its_kind_and_decodes(
    tmp_path: Path, tiny_target: Target, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(load, "data_directory", lambda: tmp_path)
    with pytest.raises(
        ValueError, match=f"no {kind} draft is shipped for 'tiny'; train one with `labsim train --draft"
    ):
        load.load_drafter(kind, tiny_target)
    save_draft(tmp_path / "drafts" / f"tiny-{kind}", *build(kind, tiny_target), "tiny")
    drafter = load.load_drafter(kind, tiny_target)
    assert drafter.name == kind
    options = {"max_new_tokens": 20, "stop_ids": frozenset()}
    plain = generate_batch(tiny_target, [[1, 2, 3]], **options)
    assert (
        generate_batch(tiny_target, [[1, 2, 3]], drafter=drafter, shape=Chain(3), **options)[0].tokens
        == plain[0].tokens
    )


def test_a_draft_for_another_target_is_refused(tmp_path: Path, tiny_target: Target) -> None:
    save_draft(tmp_path, *build("eagle3", tiny_target), "someone")
    with pytest.raises(ValueError, match="was trained for 'someone', and the target is 'tiny'"):
        load.load_drafter(str(tmp_path), tiny_target)
    with pytest.raises(ValueError, match="did you mean 'eagle3'"):
        load.load_drafter("eagle-3", tiny_target)


def test_the_three_settings_of_one_class() -> None:
    target = ModelConfig("llama", VOCAB, SIZE, 36, 8, 4, 2, 8, 128, 1e-5, False)
    kinds = [make_config(target).kind for make_config in (EagleConfig.eagle1, EagleConfig.eagle3, EagleConfig.eagle31)]
    assert kinds == ["eagle1", "eagle3", "eagle3.1"]
    assert EagleConfig.eagle3(target, draft_vocab_size=9).feature_layers == (2, 4, 5)
    for settings, message in (
        ({"norm_output": True}, "EAGLE-1 has no norm_output"),
        ({"draft_vocab_size": 9}, "a draft vocabulary of 9 needs EAGLE-3"),
    ):
        with pytest.raises(ValueError, match=message):
            EagleConfig.eagle1(target, **settings)
