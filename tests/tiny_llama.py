"""The tiny random model of the tests: read by this package and by transformers, whose answers are the reference.

Random weights are nearly indifferent to the text before a token. `sharpness` multiplies every matrix, so that greedy
text wanders; `head` multiplies the output matrix once more, so that the distributions are neither flat nor one token.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 96,
    "tie_word_embeddings": False,
}
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def tiny_llama(
    directory: Path,
    *,
    seed: int,
    sharpness: float = 1,
    head: float = 1,
    dtype: torch.dtype = torch.float64,
    **sizes: int,
) -> LlamaForCausalLM:
    """The model, saved to `directory`. `sizes` (`vocab_size` among them) go over SIZES."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**{**SIZES, **sizes})).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(sharpness)
        model.lm_head.weight.mul_(head)
    model.save_pretrained(directory)
    return model


def byte_llama(directory: Path) -> Path:
    """A directory as Hugging Face writes them: a random Llama over bytes, with a tokenizer and a chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(directory)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 160}
    ends = {"eos_token_id": fast.eos_token_id}
    tiny_llama(directory, seed=2, vocab_size=len(fast), sharpness=20, dtype=torch.float32, **sizes, **ends)
    return directory
