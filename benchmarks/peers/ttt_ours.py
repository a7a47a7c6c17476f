"""labsim's training step: `EagleDraft.ttt_forward`, soft cross-entropy at every depth, right guesses counted."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import linear, rms_norm

from labsim.drafts.eagle import EagleDraft
from labsim.drafts.eagle_config import EagleConfig

from .ttt_case import EPS, ROPE_THETA, Case


def config_of(case: Case, **settings: Any) -> EagleConfig:
    """An EAGLE-3 draft with the sizes of the case; `settings` say the rest."""
    sizes = case.sizes
    return EagleConfig(
        vocab_size=sizes.vocab,
        draft_vocab_size=sizes.draft_vocab,
        hidden_size=sizes.hidden,
        target_hidden_size=sizes.hidden,
        intermediate_size=sizes.intermediate,
        num_heads=sizes.heads,
        num_kv_heads=sizes.kv_heads,
        head_dim=sizes.head,
        rms_norm_eps=EPS,
        rope={"rope_theta": ROPE_THETA, "rope_scaling": None},
        **settings,
    )


class Ours:
    """A draft with the weights of the case, and its loss on the inputs of the case."""

    def __init__(self, case: Case, attention: str = "auto", *, frozen_head: bool = False) -> None:
        config = config_of(case, feature_layers=(2, 15, 27), max_positions=case.length + case.ttt)
        self.case, self.kernel = case, attention
        self.draft = EagleDraft(config, case.embedding_VH).to(case.features_1LF.device)
        self.draft.load_state_dict(case.weights)
        self.draft.lm_head.weight.requires_grad_(not frozen_head)

    def loss(self) -> torch.Tensor:
        return ttt_loss(self.draft, self.case, self.kernel)[0]

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """Trained tensors by public name."""
        return {name: p for name, p in self.draft.named_parameters() if p.requires_grad}


@torch.no_grad()
def teacher_probabilities(case: Case) -> torch.Tensor:
    """(1, L, N): the target's distribution after token t + 1, renormalised over the draft vocabulary."""
    normed_1LH = rms_norm(case.last_1LH, case.teacher_norm_H.shape, case.teacher_norm_H, EPS)
    return linear(normed_1LH, case.teacher_head_NH).float().softmax(dim=-1)


def ttt_loss(draft: EagleDraft, case: Case, kernel: str = "auto") -> tuple[torch.Tensor, list[torch.Tensor]]:
    """(loss, for each step how many chains are right so far).

        loss = sum_k decay^k  mean_t [ - sum_v p_(t+k)(v) log q_k,t(v) ]

    The mean of step k runs over the valid positions: those whose token t + 1 + k exists and belongs to an answer. The
    teacher of step k is the same tensor k further on, so p exists once.
    """
    p_1LN = teacher_probabilities(case)
    choice_1L = p_1LN.argmax(dim=-1)
    right_1L = case.counts_1L
    total, counts = torch.zeros((), device=p_1LN.device), []
    for step in draft.ttt_forward(case.tokens_1T, case.features_1LF, case.ttt, kernel=kernel):
        k, rows = step.step, case.length - step.step
        logits_1RN = draft.logits(step.output_BLH[:, :rows], k)
        entropy_1R = -(p_1LN[:, k:] * logits_1RN.log_softmax(dim=-1, dtype=torch.float32)).sum(dim=-1)
        valid_1R = case.counts_1L[:, k:]
        total = total + case.decay**k * (entropy_1R * valid_1R).sum() / valid_1R.sum()
        right_1L = right_1L[:, :rows] & (logits_1RN.detach().argmax(dim=-1) == choice_1L[:, k:])
        counts.append((right_1L & valid_1R).sum())
    return total, counts


def teacher_entropy(case: Case) -> float:
    """What a KL divergence leaves out of the cross-entropy: sum_k decay^k mean_t H(p_(t+k)), same positions."""
    p_1LN = teacher_probabilities(case).double()
    entropy_1L = torch.special.entr(p_1LN).sum(dim=-1)
    steps = ((entropy_1L[:, k:], case.counts_1L[:, k:], case.decay**k) for k in range(case.ttt))
    return float(sum(weight * entropy[valid].mean() for entropy, valid, weight in steps))
