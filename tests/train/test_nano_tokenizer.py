"""The tokenizer and the templates: every text comes back, every special token is one token, Jinja equals Python."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from labsim.train.nano.corpus import DOMAINS, held_out_prompts
from labsim.train.nano.templates import END_OF_TURN, FRAMES, MARK_TOKENS, SPECIAL_TOKENS, render
from labsim.train.nano.tokenizer import save_tokenizer, stop_ids, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(600, seed=0, characters=60_000)


@pytest.fixture(scope="module")
def loaded(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory):
    from transformers import AutoTokenizer

    directory = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(tokenizer, directory, 4096)
    return AutoTokenizer.from_pretrained(directory), directory


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_special_tokens_are_single_and_the_vocabulary_is_full(tokenizer: Tokenizer) -> None:
    assert tokenizer.get_vocab_size() == 600
    for token in (*SPECIAL_TOKENS, *MARK_TOKENS):
        assert tokenizer.encode(f"x{token}y", add_special_tokens=False).tokens[1:-1] == [token]


def test_numbers_are_spelled_digit_by_digit(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("190345", add_special_tokens=False).tokens == list("190345")


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("template", sorted(FRAMES))
def test_jinja_renders_what_training_saw(loaded, template: str, domain: str) -> None:
    tokenizer, directory = loaded
    text = (directory / "templates" / f"{template}.jinja").read_text()
    for messages in held_out_prompts(domain, 5, seed=1):
        for prompt in (False, True):
            rendered = tokenizer.apply_chat_template(
                messages, chat_template=text, add_generation_prompt=prompt, tokenize=False
            )
            assert rendered == render(messages, template, generation_prompt=prompt)


def test_the_default_template_and_the_stop_tokens(loaded, tokenizer: Tokenizer) -> None:
    fast, _ = loaded
    message = [{"role": "user", "content": "Hi"}]
    expected = "<|begin_of_text|><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert fast.apply_chat_template(message, add_generation_prompt=True, tokenize=False) == expected
    assert [tokenizer.id_to_token(i) for i in stop_ids(tokenizer)] == ["<|im_end|>", "<|eot_id|>", "<|end_of_text|>"]
    assert fast.eos_token == END_OF_TURN["chatml"]
    # Dropping special tokens must not drop the marks of a tool call.
    ids = fast.encode("<tool_call>\n{}\n</tool_call><|im_end|>", add_special_tokens=False)
    assert fast.decode(ids, skip_special_tokens=True) == "<tool_call>\n{}\n</tool_call>"


def test_an_unknown_template_is_named() -> None:
    with pytest.raises(ValueError, match="unknown chat template 'llama'"):
        render([{"role": "user", "content": "x"}], "llama")


def test_the_tokenizer_is_a_function_of_the_seed(tokenizer: Tokenizer) -> None:
    again, other = (train_tokenizer(600, seed=seed, characters=60_000) for seed in (0, 1))
    assert json.loads(again.to_str()) == json.loads(tokenizer.to_str()) != json.loads(other.to_str())
