"""A byte-level BPE tokenizer, trained on the training side of the corpus.

Byte-level means that any text has tokens and comes back unchanged: the 256 bytes are in the vocabulary, and the merges
only shorten what is common. Digits are split one by one, so that numbers have one spelling.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .corpus import DOMAINS, MIX, texts
from .corpus.side import Side
from .templates import BOS, DEFAULT, END_OF_TEXT, END_OF_TURN, FRAMES, MARK_TOKENS, PAD, SPECIAL_TOKENS, jinja

# Words with their leading space, single digits, runs of punctuation, indentation kept as one piece.
PIECES = r" ?[A-Za-z]+| ?\p{L}+|\d| ?[^\s\p{L}\d]+|\n+|[ \t]+(?=[ \t])|\s+"


def plain_text(text: list[dict[str, str]] | str) -> str:
    """What the tokenizer learns from: the contents without the template."""
    return text if isinstance(text, str) else "\n".join(message["content"] for message in text)


def train_tokenizer(vocab_size: int, seed: int, characters: int) -> Tokenizer:
    """Train on about so many characters of the training side, domains in the proportion of the training run."""

    def sample():
        for domain in DOMAINS:
            left = characters * MIX[domain]
            for text in texts(domain, Side(False, f"tokenizer/{domain}/{seed}")):
                plain = plain_text(text)
                yield plain
                left -= len(plain)
                if left <= 0:
                    break

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # The marks take the last ids: the trainer's vocabulary leaves room for them.
    trainer.vocab_size = vocab_size - len(MARK_TOKENS)
    tokenizer.train_from_iterator(sample(), trainer)
    tokenizer.add_tokens(list(MARK_TOKENS))
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, directory: Path, max_positions: int) -> None:
    """Write tokenizer.json, tokenizer_config.json and the templates, in the layout that transformers reads."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "templates").mkdir(exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": END_OF_TURN[DEFAULT],
        "pad_token": PAD,
        "additional_special_tokens": [t for t in SPECIAL_TOKENS if t not in (BOS, PAD, END_OF_TURN[DEFAULT])],
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_positions,
        "chat_template": jinja(DEFAULT),
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    for name in FRAMES:
        (directory / "templates" / f"{name}.jinja").write_text(jinja(name))


def stop_ids(tokenizer: Tokenizer) -> list[int]:
    """The tokens that end an answer, the default template's first."""
    names = [END_OF_TURN[DEFAULT], *(END_OF_TURN[n] for n in FRAMES if n != DEFAULT), END_OF_TEXT]
    return [tokenizer.token_to_id(name) for name in names]
