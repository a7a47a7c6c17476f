"""The forward gives transformers' numbers: prefill, chains, trees, ragged batches, hidden states, after rejections."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from labsim.models.llama import LanguageModel

Pair = tuple[torch.nn.Module, Path]


def reference(model: torch.nn.Module, tokens: list[int]) -> torch.Tensor:
    """Logits (T, V) of transformers for one sequence, from scratch."""
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0]


def random_tokens(count: int, seed: int) -> list[int]:
    return torch.randint(0, 97, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    # Transformers keeps its norms and rotary angles in float32 even in a float64 model; the rest agrees to rounding.
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5 * float(theirs.abs().max()))


def ours(directory: Path) -> LanguageModel:
    return LanguageModel.from_directory(directory, device="cpu", dtype=torch.float64)


def test_prefill_then_tokens_one_by_one(pair: Pair) -> None:
    theirs, directory = pair
    model, tokens = ours(directory), random_tokens(40, 1)
    cache = model.new_cache(1, 64)
    expected = reference(theirs, tokens)
    close(model(torch.tensor([tokens[:30]]), cache).logits_BQV[0], expected[:30])
    cache.keep([range(30)])
    for position in range(30, 40):
        close(model(torch.tensor([[tokens[position]]]), cache).logits_BQV[0, 0], expected[position])
        cache.keep([[0]])


def test_a_tree_equals_each_of_its_branches_run_alone(pair: Pair) -> None:
    theirs, directory = pair
    model, prompt = ours(directory), random_tokens(17, 2)
    cache = model.new_cache(1, 64)
    model(torch.tensor([prompt]), cache, logits="none")
    cache.keep([range(17)])
    parents = [-1, -1, 0, 0, 1, 3, 3]
    tree = random_tokens(7, 3)
    logits = model(torch.tensor([tree]), cache, parents_BQ=[parents]).logits_BQV[0]
    for node in range(7):
        path, at = [], node
        while at >= 0:
            path.insert(0, tree[at])
            at = parents[at]
        close(logits[node], reference(theirs, prompt + path)[-1])
    # Keep the branch 0 -> 3 -> 6 and go on: nothing of the siblings may be left.
    cache.keep([[0, 3, 6]])
    after = model(torch.tensor([[5]]), cache).logits_BQV[0, 0]
    close(after, reference(theirs, [*prompt, tree[0], tree[3], tree[6], 5])[-1])


def test_a_tree_grown_level_by_level_equals_one_call(pair: Pair) -> None:
    _, directory = pair
    model, prompt, tree = ours(directory), random_tokens(9, 4), random_tokens(5, 5)
    parents = [-1, -1, 0, 1, 2]
    whole, grown = model.new_cache(1, 32), model.new_cache(1, 32)
    for cache in (whole, grown):
        model(torch.tensor([prompt]), cache, logits="none")
        cache.keep([range(9)])
    at_once = model(torch.tensor([tree]), whole, parents_BQ=[parents]).logits_BQV
    levels = [
        model(torch.tensor([tree[a:b]]), grown, parents_BQ=[parents[a:b]]).logits_BQV
        for a, b in ((0, 2), (2, 4), (4, 5))
    ]
    close(torch.cat(levels, dim=1), at_once)


def test_rows_of_different_length_do_not_see_each_other(pair: Pair) -> None:
    theirs, directory = pair
    model = ours(directory)
    prompts = [random_tokens(n, 10 + n) for n in (21, 5, 13)]
    width = max(map(len, prompts))
    cache = model.new_cache(3, 48)
    padded = torch.tensor([row + [0] * (width - len(row)) for row in prompts])
    last = model(padded, cache, logits=[len(row) - 1 for row in prompts]).logits_BQV[:, 0]
    for row, tokens in enumerate(prompts):
        close(last[row], reference(theirs, tokens)[-1])
    cache.keep([range(len(row)) for row in prompts])
    drafts = torch.tensor([random_tokens(4, 20 + row) for row in range(3)])
    logits = model(drafts, cache).logits_BQV
    for row, tokens in enumerate(prompts):
        close(logits[row], reference(theirs, tokens + drafts[row].tolist())[-4:])
    # Different numbers accepted, one row a tree with another shape, then one row leaves.
    kept = [1, 4, 0]
    cache.keep([range(n) for n in kept])
    texts = [tokens + drafts[row, : kept[row]].tolist() for row, tokens in enumerate(prompts)]
    parents = [[-1, 0, -1], [-1, -1, 1], [-1, 0, 1]]
    tree = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    logits = model(tree, cache, parents_BQ=parents).logits_BQV
    close(logits[0, 2], reference(theirs, [*texts[0], 3])[-1])
    close(logits[1, 2], reference(theirs, [*texts[1], 5, 6])[-1])
    close(logits[2, 2], reference(theirs, [*texts[2], 7, 8, 9])[-1])
    cache.keep([[2], [1, 2], []])
    cache.select([2, 0])
    logits = model(torch.tensor([[11], [12]]), cache).logits_BQV[:, 0]
    close(logits[0], reference(theirs, [*texts[2], 11])[-1])
    close(logits[1], reference(theirs, [*texts[0], 3, 12])[-1])


def test_hidden_states_are_numbered_like_transformers(pair: Pair) -> None:
    theirs, directory = pair
    model, tokens = ours(directory), random_tokens(12, 6)
    with torch.no_grad():
        expected = theirs(torch.tensor([tokens]), output_hidden_states=True).hidden_states
    got = model(torch.tensor([tokens]), model.new_cache(1, 16), hidden_layers=range(4), logits="last")
    assert sorted(got.hidden) == [0, 1, 2, 3]
    for index, state in got.hidden.items():
        close(state, expected[index])
    close(got.logits_BQV[0], reference(theirs, tokens)[-1:])


def test_cut_takes_tokens_back(llama_pair: Pair) -> None:
    theirs, directory = llama_pair
    model, tokens = ours(directory), random_tokens(20, 7)
    cache = model.new_cache(1, 32)
    model(torch.tensor([tokens]), cache, logits="none")
    cache.keep([range(20)])
    cache.cut([11])
    logits = model(torch.tensor([[3, 4]]), cache).logits_BQV[0]
    close(logits, reference(theirs, [*tokens[:11], 3, 4])[-2:])


def test_fp32_agrees_with_fp64_to_rounding(llama_pair: Pair) -> None:
    theirs, directory = llama_pair
    model = LanguageModel.from_directory(directory, device="cpu", dtype=torch.float32)
    tokens = random_tokens(25, 8)
    logits = model(torch.tensor([tokens]), model.new_cache(1, 32)).logits_BQV[0].double()
    expected = reference(theirs, tokens)
    assert float((logits - expected).abs().max() / expected.abs().max()) < 2e-5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, c: m(torch.tensor([[97]]), c), "token id 97 is outside the vocabulary of 97"),
        (lambda m, c: m(torch.tensor([[-1]]), c), "token id -1"),
        (lambda m, c: m(torch.tensor([[1], [2]]), c), "2 rows of tokens for a cache of 1"),
        (lambda m, c: m(torch.zeros(1, 0, dtype=torch.long), c), "at least one token"),
        (lambda m, c: m(torch.tensor([[1]]), c, hidden_layers=[4]), "hidden layer 4 does not exist"),
        (lambda m, c: m(torch.zeros(1, 9, dtype=torch.long), c), "8 slots per row and would need 9"),
        (lambda m, c: m(torch.tensor([[1, 2]]), c, parents_BQ=[[-1, 1]]), "cannot follow 1"),
        (
            lambda m, _: m(torch.zeros(1, 129, dtype=torch.long), m.new_cache(1, 200)),
            "position 128 lies beyond the context of 128 tokens",
        ),
        (lambda m, c: c.keep([[0]]), "not a path"),
        (lambda m, c: c.cut([1]), "holds 0 tokens and cannot be cut to 1"),
    ],
)
def test_wrong_calls_say_what_is_wrong(llama_pair: Pair, call: object, message: str) -> None:
    model = ours(llama_pair[1])
    with pytest.raises(ValueError, match=message):
        call(model, model.new_cache(1, 8))


def test_keep_refuses_a_path_that_skips_a_generation(llama_pair: Pair) -> None:
    model = ours(llama_pair[1])
    cache = model.new_cache(1, 8)
    model(torch.tensor([[1, 2, 3]]), cache)
    with pytest.raises(ValueError, match=r"row 0: \[0, 2\] is not a path"):
        cache.keep([[0, 2]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "architecture 'gpt2'"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
        ({"num_hidden_layers": 4}, "lacks tensors: model.layers.3.input_layernorm.weight"),
        ({"intermediate_size": 64}, r"mlp.gate_proj.weight is \(80, 48\), and config.json makes it \(64, 48\)"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_named(
    llama_pair: Pair, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    (tmp_path / "model.safetensors").write_bytes((llama_pair[1] / "model.safetensors").read_bytes())
    config = json.loads((llama_pair[1] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ValueError, match=message):
        LanguageModel.from_directory(tmp_path)


def test_a_damaged_or_missing_file_is_named(llama_pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.json does not exist"):
        LanguageModel.from_directory(tmp_path)
    (tmp_path / "config.json").write_text((llama_pair[1] / "config.json").read_text())
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"no .safetensors file; pytorch_model.bin is a pickle"):
        LanguageModel.from_directory(tmp_path)
    whole = (llama_pair[1] / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        LanguageModel.from_directory(tmp_path)


def test_without_layers_the_ends_are_the_same_and_the_rest_is_not_read(
    llama_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, directory = LanguageModel.from_directory(llama_pair[1], device="cpu"), llama_pair[1]
    monkeypatch.setattr("labsim.models.weights.load_file", lambda *_, **__: pytest.fail("everything was read"))
    ends = LanguageModel.from_directory(directory, device="cpu", layers=False)
    assert torch.equal(ends.embedding_VE, whole.embedding_VE) and torch.equal(ends.norm, whole.norm)
    assert torch.equal(ends.head.weight_OI, whole.head.weight_OI)
    assert ends.layers == [] and ends.config == whole.config
    with pytest.raises(ValueError, match="loaded without its layers"):
        ends.forward(torch.tensor([[1, 2]]), ends.new_cache(1, 2))
