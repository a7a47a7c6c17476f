"""Exports: bit-equal when read back, in each format; what no engine reads is refused; nothing half-written stays.

That `speculators` itself computes the same from an export is tests/benchmarks/test_export_peer.py.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import linear, silu

from labsim.checkpoints import export as module
from labsim.checkpoints.check import fault
from labsim.checkpoints.export import export
from labsim.cli import main
from labsim.drafts.eagle import EagleDraft
from labsim.drafts.eagle_checkpoint import load_draft, save_draft
from labsim.drafts.eagle_config import EagleConfig
from labsim.drafts.heads import HeadsConfig, ParallelHeads
from labsim.drafts.mtp import MTPConfig, MTPDraft
from labsim.drafts.vocabulary import DraftVocabulary
from labsim.models.config import ModelConfig
from labsim.models.load import load_target
from labsim.models.paths import data_directory
from labsim.train.ttt.build import build
from labsim.train.ttt.recipe import TTTRecipe
from tests.drafts.eagle_cases import randomise

VOCAB, SIZE, LAYERS = 31, 24, 8
IDS = [0, 1, 3, 4, 7, 9, 10, 12, 13, 15, 18, 20, 22, 23, 26, 28, 30]
RAW = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_size": SIZE,
    "intermediate_size": 36, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "eos_token_id": 2,
}  # fmt: skip
TARGET = ModelConfig.from_dict(RAW, "target")
FLAGS = {
    "eagle3": (),
    "eagle3.1": ("fc_norm", "norm_output"),
    "gpt-oss": ("norm_before_fc", "norm_before_residual"),
}


def embedding() -> torch.Tensor:
    return torch.randn(VOCAB, SIZE, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """config.json and the one tensor that an export reads."""
    directory = tmp_path / "target"
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(RAW))
    save_file({"model.embed_tokens.weight": embedding()}, directory / "model.safetensors")
    return directory


def saved(directory: Path, draft: torch.nn.Module, ids: list[int] | None = None) -> Path:
    randomise(draft, 1)
    vocabulary = DraftVocabulary.whole(VOCAB) if ids is None else DraftVocabulary.of(ids, VOCAB)
    save_draft(directory, draft, vocabulary, "someone", dtype=torch.float32)
    # As a public draft: for a target that is known by its directory only.
    path = directory / "config.json"
    document = json.loads(path.read_text())
    document["labsim"] = {"kind": document["labsim"]["kind"]}
    path.write_text(json.dumps(document))
    return directory


def eagle3(directory: Path, variant: str = "eagle3.1", ids: list[int] | None = IDS, **settings: object) -> Path:
    size = VOCAB if ids is None else len(ids)
    config = EagleConfig.eagle3(TARGET, draft_vocab_size=size, **dict.fromkeys(FLAGS[variant], True), **settings)
    return saved(directory, EagleDraft(config, embedding()), ids)


@pytest.mark.parametrize("form", ["vllm", "speculators"])
@pytest.mark.parametrize("variant", FLAGS)
@pytest.mark.parametrize("ids", [IDS, None], ids=["reduced", "whole"])
def test_a_round_trip_is_bit_equal(
    tmp_path: Path, target: Path, form: str, variant: str, ids: list[int] | None
) -> None:
    source = eagle3(tmp_path / "draft", variant, ids)
    done = export(source, tmp_path / "out", form, target_name=str(target), dtype="fp32", k=5)
    document = json.loads((tmp_path / "out" / "config.json").read_text())
    assert "labsim" not in document, "public keys alone say everything"
    before, after = (
        load_draft(one, target=TARGET, embedding_VH=embedding(), dtype=torch.float32)
        for one in (source, tmp_path / "out")
    )
    assert after.draft.config == before.draft.config
    assert torch.equal(after.vocabulary.ids_N, before.vocabulary.ids_N)
    wanted, found = before.draft.state_dict(), after.draft.state_dict()
    assert wanted.keys() == found.keys() and all(torch.equal(wanted[name], found[name]) for name in wanted)
    stored = load_file(tmp_path / "out" / "model.safetensors")
    assert set(done.tensors) == set(stored)
    assert any(name.startswith("layers.0." if form == "speculators" else "midlayer.") for name in stored)
    assert ("embed_tokens.weight" in stored) is (form == "speculators")
    assert ("d2t" in stored) is (ids is not None)
    assert done.bytes == (tmp_path / "out" / "model.safetensors").stat().st_size
    assert '"method": "eagle3", "num_speculative_tokens": 5' in done.command and str(target) in done.command


def test_the_keys_that_engines_read(tmp_path: Path, target: Path) -> None:
    source = eagle3(tmp_path / "draft")
    for form in ("vllm", "speculators"):
        export(source, tmp_path / form, form, target_name=str(target), dtype="bf16", k=4)
    vllm, speculators = (json.loads((tmp_path / form / "config.json").read_text()) for form in ("vllm", "speculators"))
    key = "eagle_aux_hidden_state_layer_ids"
    assert vllm["architectures"] == ["LlamaForCausalLMEagle3"] and vllm["torch_dtype"] == "bfloat16"
    assert (vllm[key], vllm["eagle_config"][key]) == ([2, 4, 5], [1, 3, 4]), "each place its numbering"
    assert vllm["fc_norm"] and vllm["norm_output"] and vllm["eos_token_id"] == 2
    assert vllm["rope_theta"] == vllm["rope_parameters"]["rope_theta"] == 10000.0
    assert speculators["speculators_model_type"] == "eagle3" and speculators[key] == [2, 4, 5]
    assert speculators["fc_norm"] and speculators["norm_output"] and speculators["dtype"] == "bfloat16"
    layer, inner = speculators["transformer_layer_config"], speculators["speculators_config"]
    assert layer["model_type"] == "llama" and layer["vocab_size"] == VOCAB and layer["hidden_size"] == SIZE
    assert inner["algorithm"] == "eagle3" and inner["proposal_methods"][0]["speculative_tokens"] == 4
    assert inner["verifier"] == {"name_or_path": str(target), "architectures": ["LlamaForCausalLM"]}
    kinds = {t.dtype for t in load_file(tmp_path / "vllm" / "model.safetensors").values() if t.is_floating_point()}
    assert kinds == {torch.bfloat16}


def test_heads_are_written_as_medusa_computes_them(tmp_path: Path, target: Path) -> None:
    """By hand, as vLLM's Medusa: x + silu(layer(x)) for each layer of a block, then the head's own rows."""
    config = HeadsConfig.beside(TARGET, num_heads=3, num_blocks=2, draft_vocab_size=len(IDS))
    draft = ParallelHeads(config)
    source = saved(tmp_path / "draft", draft, IDS)
    export(source, tmp_path / "out", "vllm", target_name=str(target), dtype="fp32")
    document = json.loads((tmp_path / "out" / "config.json").read_text())
    stored = load_file(tmp_path / "out" / "model.safetensors")
    assert document["model_type"] == "medusa" and document["medusa_fc_bias"] is True
    assert (document["num_heads"], document["num_hidden_layers"], document["truncated_vocab_size"]) == (3, 2, len(IDS))
    state = torch.randn(5, SIZE)
    for head in range(3):
        x = state
        for layer in range(2):
            name = f"blocks.{head}.layers.{layer}"
            x = x + silu(linear(x, stored[f"{name}.weight"], stored[f"{name}.bias"]))
        logits = linear(x, stored[f"lm_heads.{head}.weight"])
        assert torch.allclose(logits, draft.logits(draft.output(state, head), head), atol=1e-6)
    assert stored["token_map"].tolist() == IDS, "ids, not offsets"
    assert len(stored) == 3 * (2 * 2 + 1) + 1


def test_what_does_not_fit_is_not_cast() -> None:
    with pytest.raises(ValueError, match=r"fc\.weight does not fit into fp16: its largest value is 1e\+06"):
        module.cast_tensor("fc.weight", torch.tensor([0.5, -1e6]), "fp16")
    assert module.cast_tensor("fc.weight", torch.tensor([0.5, -1e6]), "bf16").dtype == torch.bfloat16


def test_an_eagle_1_that_is_trained_here_can_be_served() -> None:
    nano = load_target("nano", device="cpu")
    draft, _ = build(TTTRecipe(draft="eagle1", ttt=1), nano, [])
    assert draft.fc.bias is None


def test_eagle_1_is_written_without_its_bias_or_not_at_all(tmp_path: Path, target: Path) -> None:
    draft = EagleDraft(EagleConfig.eagle1(TARGET), embedding(), embedding())
    source = saved(tmp_path / "draft", draft)
    with pytest.raises(ValueError, match=r"fc\.bias is not zero.* stops its loader.*SGLang computes the bias"):
        export(source, tmp_path / "out", "vllm", target_name=str(target))
    tensors = load_file(source / "model.safetensors")
    tensors["fc.bias"].zero_()
    save_file(tensors, source / "model.safetensors")
    done = export(source, tmp_path / "out", "vllm", target_name=str(target), dtype="fp32")
    assert (
        '"method": "eagle"' in done.command
        and json.loads((tmp_path / "out" / "config.json").read_text())["bias"] is False
    )
    again = load_draft(tmp_path / "out", target=TARGET, embedding_VH=embedding(), head_VH=embedding())
    assert torch.equal(again.draft.midlayer.mlp.up_proj.weight, draft.midlayer.mlp.up_proj.weight)
    with pytest.raises(ValueError, match="has no model for eagle1; --format vllm"):
        export(source, tmp_path / "other", "speculators", target_name=str(target))


def test_what_no_engine_reads_is_refused(tmp_path: Path, target: Path) -> None:
    def refused(source: Path, message: str, form: str = "vllm", **options: object) -> None:
        with pytest.raises(ValueError, match=message) as caught:
            export(source, tmp_path / "out", form, target_name=str(target), **options)
        assert len(str(caught.value).splitlines()) == 1 and not (tmp_path / "out").exists()

    mtp = saved(tmp_path / "mtp", MTPDraft(MTPConfig.mtp(TARGET), embedding(), embedding()))
    refused(mtp, "only as part of targets that were trained with one")
    refused(eagle3(tmp_path / "biased", attention_bias=True), "expect one on o_proj too")
    refused(eagle3(tmp_path / "bare", "eagle3", final_norm=False), "every engine computes one")
    refused(eagle3(tmp_path / "good"), "format 'gguf' is not known", "gguf")
    refused(tmp_path / "nothing", "is no directory")
    large = eagle3(tmp_path / "large")
    tensors = load_file(large / "model.safetensors")
    del tensors["fc_norm.1.weight"]
    save_file(tensors, large / "model.safetensors")
    refused(large, r"has a fault and is not exported: norms: fc_norm missing: .*fc_norm\.1\.weight")
    (target / "model.safetensors").unlink()
    refused(eagle3(tmp_path / "other"), "the target's weights are needed", "speculators")
    with pytest.raises(ValueError, match="does not name its target: give it"):
        export(tmp_path / "good", tmp_path / "out", "vllm")


def test_a_fault_in_the_result_leaves_nothing(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second examination is the one that looks at what was written."""
    source, examined = eagle3(tmp_path / "draft"), []

    def examine(directory: Path, name: str, *, run: bool) -> object:
        examined.append(Path(directory))
        found = real(directory, name, run=run)
        bad = fault("planted", "a fault", "s", "r")
        return found if len(examined) == 1 else type(found)(found.directory, name, None, "", (bad,))

    real = module.examine
    monkeypatch.setattr(module, "examine", examine)
    with pytest.raises(ValueError, match="planted: a fault"):
        export(source, tmp_path / "out", "vllm", target_name=str(target))
    assert len(examined) == 2 and sorted(path.name for path in tmp_path.iterdir()) == ["draft", "target"]


def test_nothing_is_overwritten_without_force(tmp_path: Path, target: Path) -> None:
    source, out = eagle3(tmp_path / "draft"), tmp_path / "out"
    export(source, out, "vllm", target_name=str(target))
    before = (out / "model.safetensors").read_bytes()
    with pytest.raises(ValueError, match=r"is not empty .*--force"):
        export(source, out, "speculators", target_name=str(target))
    assert (out / "model.safetensors").read_bytes() == before
    (out / "notes.txt").write_text("mine")
    export(source, out, "speculators", target_name=str(target), force=True)
    assert sorted(path.name for path in out.iterdir()) == ["config.json", "model.safetensors", "notes.txt"]
    assert (out / "model.safetensors").read_bytes() != before
    (out / "other.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=r"holds other\.safetensors"):
        export(source, out, "vllm", target_name=str(target), force=True)
    (out / "other.safetensors").unlink()
    (out / "model.safetensors.index.json").write_text(
        '{"weight_map": {"fc.weight": "model-00001-of-00002.safetensors"}}'
    )
    with pytest.raises(ValueError, match=r"holds model\.safetensors\.index\.json"):
        export(source, out, "vllm", target_name=str(target), force=True)
    with pytest.raises(ValueError, match="the draft's own directory"):
        export(source, source, "vllm", target_name=str(target), force=True)


def test_a_directory_that_is_there_is_filled_where_it_lies(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link, or a mount point: what lies beside it is on another disk."""
    source, real = eagle3(tmp_path / "draft"), os.replace
    there, link = tmp_path / "disk" / "there", tmp_path / "link"
    there.mkdir(parents=True)
    link.symlink_to(there)

    def replace(old: Path, new: Path) -> None:
        if Path(old).resolve().is_relative_to(there) != Path(new).resolve().is_relative_to(there):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(old))
        real(old, new)

    monkeypatch.setattr(os, "replace", replace)
    export(source, link, "vllm", target_name=str(target))
    assert sorted(path.name for path in there.iterdir()) == ["config.json", "model.safetensors"]
    assert link.is_symlink() and sorted(path.name for path in tmp_path.iterdir()) == ["disk", "draft", "link", "target"]


def test_what_cannot_be_written_is_named(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, nowhere, out = eagle3(tmp_path / "draft"), tmp_path / "nowhere", tmp_path / "out"
    nowhere.symlink_to(tmp_path / "not" / "there")
    with pytest.raises(ValueError, match="nowhere is a link to what is not there"):
        export(source, nowhere, "vllm", target_name=str(target))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"below cannot be made: \S+/file is no directory"):
        export(source, tmp_path / "file" / "far" / "below", "vllm", target_name=str(target))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match=rf"far cannot be made: {tmp_path} cannot be written"):
        export(source, tmp_path / "far", "vllm", target_name=str(target))
    monkeypatch.undo()
    (out / "config.json").mkdir(parents=True)
    with pytest.raises(OSError) as failed:
        export(source, out, "vllm", target_name=str(target), force=True)
    assert failed.value.filename == str(out)
    # The second of two files is the one that could not be moved: nothing else is left.
    assert sorted(path.name for path in out.iterdir()) == ["config.json", "model.safetensors"]


# --- the commands ----------------------------------------------------------------------------------------------------


def called(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_the_export_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = data_directory() / "drafts" / "nano-eagle3.1"
    arguments = ("export", shipped, "--format", "vllm", "--out", tmp_path / "out", "--json")
    status, out, err = called(capsys, *arguments)
    document = json.loads(out)
    assert (status, err) == (0, "")
    assert {"format", "out", "tensors", "bytes", "dtype", "command"} <= document.keys()
    assert document["dtype"] == "fp16" and document["command"].startswith("vllm serve ")
    status, out, err = called(capsys, *arguments)
    assert (status, out, len(err.splitlines())) == (2, "", 1) and "is not empty" in err
    # fp16 to fp16: the shipped tensors as they are, and the doctor runs them as a stranger's.
    ours, theirs = (load_file(path / "model.safetensors") for path in (shipped, tmp_path / "out"))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_doctor_command_and_its_statuses(tmp_path: Path, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draft = eagle3(tmp_path / "draft")
    arguments = ("draft", "doctor", draft, "--target", target, "--json")
    status, out, err = called(capsys, *arguments)
    document = json.loads(out)
    assert (status, err, document["ok"], document["kind"]) == (0, "", True, "eagle3.1")
    skipped = {check["name"]: check["finding"] for check in document["checks"] if check["status"] == "not checked"}
    assert "no tokenizer" in skipped["acceptance"], "a target of config.json alone"
    tensors = load_file(draft / "model.safetensors")
    tensors["d2t"].zero_()
    save_file(tensors, draft / "model.safetensors")
    status, out, err = called(capsys, *arguments)
    assert (status, err, json.loads(out)["ok"]) == (1, "", False)
    status, out, err = called(capsys, *arguments[:-1])
    assert status == 1 and "FAULT   d2t: zeros" in out and "remedy:" in out
    for wrong, said in (
        (("draft", "doctor", tmp_path / "none", "--target", target), "is no directory"),
        (("draft", "doctor", draft, "--target", "nanoo"), "did you mean 'nano'"),
        (("draft", "doctor", draft), "--target"),
        (("draft", "doctr", draft), "doctr"),
    ):
        status, out, err = called(capsys, *wrong)
        assert (status, out, len(err.splitlines())) == (2, "", 1) and said in err
