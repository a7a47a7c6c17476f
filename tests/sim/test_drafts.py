"""Draft sizes against published counts and against adding up the tensors of a checkpoint."""

from __future__ import annotations

import pytest

from labsim.sim.drafts import draft_parameters, find_draft
from labsim.sim.targets import MODELS

# Millions: read per forward, stored with the target's embedding.
EAGLE3 = {"llama-3.1-8b": (424.7, 950.0), "llama-3.3-70b": (1403.0, 2453.7), "qwen3-32b": (782.5, 1560.4)}


@pytest.mark.parametrize("target", EAGLE3)
def test_published_eagle3_counts(target: str) -> None:
    read, stored = EAGLE3[target]
    assert round(draft_parameters("eagle3", target) / 1e6, 1) == read
    assert round(draft_parameters("eagle3", target, embedding=True) / 1e6, 1) == stored


def test_qwen3_32b_head_is_as_large_as_the_published_file() -> None:
    assert draft_parameters("eagle3", "qwen3-32b", embedding=True) * 2 / 1e9 == pytest.approx(3.12, abs=0.005)


def test_eagle3_equals_its_tensors_one_by_one() -> None:
    h, q, kv, ffn, vocab = 4096, 32 * 128, 8 * 128, 14336, 32000
    tensors = {
        "fc": (h, 3 * h),
        "q_proj": (q, 2 * h),
        "k_proj": (kv, 2 * h),
        "v_proj": (kv, 2 * h),
        "o_proj": (h, q),
        "gate_proj": (ffn, h),
        "up_proj": (ffn, h),
        "down_proj": (h, ffn),
        "lm_head": (vocab, h),
        "input_layernorm": (h, 1),
        "hidden_norm": (h, 1),
        "post_attention_layernorm": (h, 1),
        "norm": (h, 1),
    }
    assert draft_parameters("eagle3", "llama-3.1-8b") == sum(a * b for a, b in tensors.values())


def test_eagle1_trainable_part_is_the_published_size() -> None:
    # arXiv 2401.15077: 0.24B for a 7B target (Llama-2-7B), 0.99B for 70B. The head is the target's own and not counted.
    for target, billions in (("llama-2-7b", 0.24), ("llama-3.3-70b", 0.99)):
        model = MODELS[target]
        assert (draft_parameters("eagle", target) - model.embedding_parameters) / 1e9 == pytest.approx(
            billions, abs=0.01
        )


def test_small_model_reads_all_but_an_untied_embedding() -> None:
    assert draft_parameters("llama-3.2-1b", "llama-3.3-70b") == 1_235_814_400  # tied: the table is the head
    assert draft_parameters("llama-3.1-8b", "llama-3.3-70b") == 8_030_261_248 - 128256 * 4096


def test_forwards_by_kind() -> None:
    kinds = ("eagle3", "eagle", "mtp", "llama-3.2-1b", "parallel", "ngram")
    assert [find_draft(kind, "llama-3.3-70b").forwards(5) for kind in kinds] == [5, 5, 5, 5, 1, 0]


def test_mtp_of_an_moe_keeps_its_experts_apart() -> None:
    draft = find_draft("mtp", "kimi-k2")
    assert draft.experts == 384
    assert draft.stored_parameters - draft.read_parameters == draft.expert_parameters == 3 * 7168 * 2048 * 384


def test_unknown_draft_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown draft 'eagel3'; did you mean 'eagle3'"):
        find_draft("eagel3", "llama-3.1-8b")
