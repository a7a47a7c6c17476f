"""The same training step by `speculators` 0.9.0: `Eagle3DraftModel.forward`, its KL loss and its accuracy counts.

Runs in the environment that `build_speculators.py` makes. The model is taken as released except for two things that a
comparison needs: the weights are those of the case (it would read them from a verifier's files), and its head, which it
freezes, is trained unless `frozen_head`. On a CPU it has eager losses only, and flex attention has no backward there.
"""

from __future__ import annotations

import torch
from speculators.config import SpeculatorsConfig, VerifierConfig
from speculators.losses import resolve_loss_config
from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
from speculators.proposals.greedy import GreedyTokenProposalConfig
from transformers import LlamaConfig

from .ttt_case import EPS, ROPE_THETA, Case

ATTENTION = {"eager": "eager", "sdpa": "sdpa", "flex": "simple_flex_attention"}


class Speculators:
    """The peer's draft with the weights of the case, and its loss on the inputs of the case."""

    def __init__(self, case: Case, attention: str, *, frozen_head: bool = False) -> None:
        self.case = case
        device = case.features_1LF.device
        self.model = Eagle3DraftModel(self.config(attention)).to(device).train()
        own = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in case.weights.items()}
        own |= {
            "embed_tokens.weight": case.embedding_VH,
            "verifier_norm.weight": case.teacher_norm_H,
            "verifier_lm_head.weight": case.teacher_head_NH,
        }
        missing, unexpected = self.model.load_state_dict(own, strict=False)
        if unexpected or set(missing) - {"t2d", "d2t"}:
            raise ValueError(f"speculators' draft has other tensors: missing {missing}, unexpected {unexpected}")
        self.model.lm_head.weight.requires_grad_(not frozen_head)
        self.losses = resolve_loss_config("kl_div", "fused" if device.type == "cuda" else "eager")

    def config(self, attention: str) -> Eagle3SpeculatorConfig:
        sizes = self.case.sizes
        layer = LlamaConfig(
            vocab_size=sizes.vocab,
            hidden_size=sizes.hidden,
            intermediate_size=sizes.intermediate,
            num_hidden_layers=1,
            num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.kv_heads,
            head_dim=sizes.head,
            max_position_embeddings=self.case.length + self.case.ttt + 1,
            rms_norm_eps=EPS,
            rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        )
        layer._attn_implementation = ATTENTION[attention]
        return Eagle3SpeculatorConfig(
            transformer_layer_config=layer,
            draft_vocab_size=sizes.draft_vocab,
            eagle_aux_hidden_state_layer_ids=[2, 15, 27],
            speculators_config=SpeculatorsConfig(
                algorithm="eagle3",
                proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=self.case.ttt)],
                default_proposal_method="greedy",
                verifier=VerifierConfig(name_or_path=None, architectures=["LlamaForCausalLM"]),
            ),
        )

    def loss(self) -> torch.Tensor:
        case = self.case
        return self.model(
            hidden_states=case.features_1LF,
            input_ids=case.tokens_1T[:, 1:],
            document_ids=torch.zeros_like(case.tokens_1T[:, 1:]),
            loss_mask=case.counts_1L,
            verifier_last_hidden_states=case.last_1LH,
            ttt_steps=case.ttt,
            ttt_step_loss_decay=case.decay,
            loss_config=self.losses,
        )[1]

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """Trained tensors by public name."""
        named = self.model.named_parameters()
        return {name.replace("layers.0.", "midlayer."): p for name, p in named if p.requires_grad}
