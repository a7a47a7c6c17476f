"""The tokenizer of SmolLM2, read from a GGUF file.

A GGUF file stores a byte-level BPE as three lists (tokens, merges, token types) and *names* the rule that splits text
into words before merging: here `smollm`, which puts every digit into a word of its own and then splits as GPT-2 does.
Converters that ignore the name get "a  12" wrong: GPT-2's rule leaves the last space for the number (two tokens), the
model was trained with the two spaces together (one token).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CONTROL = 3  # GGUF's token type of special tokens, which text never produces by merging


def tokenizer_from_gguf(path: Path, *, max_length: int) -> PreTrainedTokenizerFast:
    """Build the tokenizer with its chat template and special tokens. ValueError for another splitting rule."""
    from gguf import GGUFReader
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    fields = {
        name.removeprefix("tokenizer."): field for name, field in GGUFReader(path).fields.items() if "tokenizer" in name
    }
    rule = fields["ggml.pre"].contents()
    if rule != "smollm":
        raise ValueError(f"{path.name} splits text by the rule {rule!r}; this reader knows 'smollm'")
    tokens = fields["ggml.tokens"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["ggml.merges"].contents()]
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    types = fields["ggml.token_type"].contents()
    special = [token for token, kind in zip(tokens, types, strict=True) if kind == CONTROL]
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    roles = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    named = {
        f"{role}_token": tokens[fields[f"ggml.{key}_token_id"].contents()]
        for role, key in roles.items()
        if f"ggml.{key}_token_id" in fields
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        additional_special_tokens=[token for token in special if token not in named.values()],
        chat_template=fields["chat_template"].contents(),
        clean_up_tokenization_spaces=False,
        model_max_length=max_length,
        **named,
    )
