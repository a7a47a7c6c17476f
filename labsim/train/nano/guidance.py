"""Teaching a small model to look back: drills, and a hint where to look.

A language model copies from its context with two heads in series (an *induction head*; Olsson et al., 2022, arXiv
2209.11895): a head in an early layer brings each token's predecessor to it, and a head in a later layer attends to
the token whose predecessor equals the present token. Renaming code, quoting a document and filling a tool's arguments
all rest on it. Left alone, the pair appears suddenly after far more tokens than a laptop can train: `nano` showed no
trace of it after 5.5 million, however often its text repeats itself.

So training gets a hint. Beside its rows it reads drills (a few tokens drawn at random and repeated, which nothing but
looking back can predict), and on the drills some heads are told where to attend:

    loss = next token on rows + drill weight * next token on drills (from the second time on)
         + hint weight * mean over hinted heads of -ln(attention that falls on the right places)

The hint ends early: by then the heads earn their keep.

Shapes: B drills, T tokens, H heads, V vocabulary, D head dimension.
"""

from __future__ import annotations

import random
import threading

import torch
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from .model import next_token_loss
from .recipe import Recipe
from .templates import BOS_ID, SPECIAL_TOKENS


def drill(rng: random.Random, text: list[int], vocabulary: int, length: int) -> tuple[list[int], int]:
    """The beginning-of-text token and a random piece, repeated to `length` tokens; and the piece's length.

    The piece has distinct tokens, or tokens as frequent as in `text`.
    """
    longest = min(75, length // 2)
    period = rng.randint(4, min(30, longest)) if rng.random() < 0.7 else rng.randint(min(30, longest), longest)
    if rng.random() < 0.4:
        piece = rng.sample(range(len(SPECIAL_TOKENS), vocabulary), period)
    else:
        piece = [text[rng.randrange(len(text))] for _ in range(period)]
    return [BOS_ID, *(piece * (length // period + 1))][:length], period


class Guidance:
    """Next-token loss with drills and hints. Registers hooks on the model; safe to call from several threads."""

    def __init__(self, model: LlamaForCausalLM, recipe: Recipe) -> None:
        self.model, self.recipe = model, recipe
        layers = model.config.num_hidden_layers
        self.previous_layer = min(1, layers - 2)
        self.induction_layers = sorted({max(self.previous_layer + 1, layers // 2 + shift) for shift in (-1, 0, 1)})
        self.induction_layers = [layer for layer in self.induction_layers if layer < layers]
        group = model.config.num_attention_heads // model.config.num_key_value_heads
        firsts = range(0, model.config.num_attention_heads, group)
        # A previous-token head must be shared by both kinds of content, so two per key/value group where there are two.
        self.previous_heads = [head for first in firsts for head in range(first, first + min(2, group))]
        self.induction_heads = list(firsts)
        self._local = threading.local()
        for layer in (self.previous_layer, *self.induction_layers):
            attention = model.model.layers[layer].self_attn
            attention.register_forward_pre_hook(self._recorder(layer), with_kwargs=True)

    def _recorder(self, layer: int):
        def record(module: torch.nn.Module, arguments: tuple, keywords: dict) -> None:
            # Only during a drill, and only in the thread that runs it.
            if (recorded := getattr(self._local, "recorded", None)) is not None:
                hidden = keywords["hidden_states"] if "hidden_states" in keywords else arguments[0]
                recorded[layer] = (hidden, keywords["position_embeddings"])

        return record

    def log_attention(self, layer: int, heads: list[int]) -> torch.Tensor:
        """Log attention weights of some heads in the forward just recorded, (B, H, T, T)."""
        hidden, (cos, sin) = self._local.recorded[layer]
        attention = self.model.model.layers[layer].self_attn
        shape = (*hidden.shape[:2], -1, attention.head_dim)
        q_BHTD = attention.q_proj(hidden).view(shape).transpose(1, 2).float()
        k_BHTD = attention.k_proj(hidden).view(shape).transpose(1, 2).float()
        q_BHTD, k_BHTD = apply_rotary_pos_emb(q_BHTD, k_BHTD, cos.float(), sin.float())
        k_BHTD = k_BHTD.repeat_interleave(attention.num_key_value_groups, 1)
        scores_BHTT = q_BHTD[:, heads] @ k_BHTD[:, heads].transpose(-1, -2) / attention.head_dim**0.5
        later_TT = torch.ones(scores_BHTT.shape[-2:], dtype=torch.bool).triu(1)
        return torch.log_softmax(scores_BHTT.masked_fill(later_TT, -1e9), -1)

    def losses(self, tokens_BT: torch.Tensor, *, hint: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Of some rows: what is minimised, next token on the rows, next token on the drills (0 without drills).

        The drills follow from the rows, so that a resumed run draws the same ones.
        """
        recipe = self.recipe
        rows = next_token_loss(self.model, tokens_BT, recipe.bf16)
        if not recipe.drills:
            return rows, rows, torch.zeros(())
        rng = random.Random(int((tokens_BT * (torch.arange(tokens_BT.numel()).view_as(tokens_BT) + 1)).sum()))
        text = tokens_BT[tokens_BT >= len(SPECIAL_TOKENS)].tolist()
        vocabulary = self.model.config.vocab_size
        drawn = [drill(rng, text, vocabulary, recipe.drill_length) for _ in range(recipe.drills)]
        drills_BT = torch.tensor([tokens for tokens, _ in drawn])
        periods_B = torch.tensor([period for _, period in drawn])
        self._local.recorded = {}
        try:
            with torch.autocast("cpu", torch.bfloat16, enabled=recipe.bf16):
                logits_BTV = self.model(input_ids=drills_BT, use_cache=False).logits[:, :-1].float()
                copied = self._copy_loss(logits_BTV, drills_BT, periods_B)
                total = rows + recipe.drill_weight * copied
                if hint:
                    total = total + recipe.hint_weight * self._hint_loss(periods_B)
        finally:
            self._local.recorded = None
        return total, rows, copied

    def _copy_loss(self, logits_BTV: torch.Tensor, drills_BT: torch.Tensor, periods_B: torch.Tensor) -> torch.Tensor:
        loss_BT = torch.nn.functional.cross_entropy(
            logits_BTV.flatten(0, 1), drills_BT[:, 1:].flatten(), reduction="none"
        ).view(len(periods_B), -1)
        # The piece stands at 1 .. period; its first token comes again unannounced.
        known_BT = torch.arange(1, drills_BT.shape[1])[None] > periods_B[:, None] + 1
        return (loss_BT * known_BT).sum() / known_BT.sum()

    def _hint_loss(self, periods_B: torch.Tensor) -> torch.Tensor:
        places = torch.arange(self.recipe.drill_length)
        t, j = places[None, :, None], places[None, None, :]
        period = periods_B[:, None, None]
        previous_BTT = (j == t - 1).expand(len(periods_B), -1, -1)
        # The token after an earlier occurrence of the present one.
        after_BTT = ((j - t - 1) % period == 0) & (j >= 1) & (j <= t) & (t >= period)
        hints = [self._missed(self.previous_layer, self.previous_heads, previous_BTT)]
        found = [self._missed(layer, self.induction_heads, after_BTT) for layer in self.induction_layers]
        return hints[0] + sum(found) / len(found)

    def _missed(self, layer: int, heads: list[int], right_BTT: torch.Tensor) -> torch.Tensor:
        log_mass_BHT = self.log_attention(layer, heads).masked_fill(~right_BTT[:, None], -1e9).logsumexp(-1)
        counted_BT = right_BTT.any(-1)
        return -(log_mass_BHT * counted_BT[:, None]).sum() / (counted_BT.sum() * len(heads))
