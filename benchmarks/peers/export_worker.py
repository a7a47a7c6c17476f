"""Exported drafts, loaded by `speculators` 0.9.0: `python -m peers.export_worker REQUEST`, answer on its last line.

REQUEST is a JSON object: `directories` (each what `labsim export --format speculators` wrote), `attention` (eager or
sdpa) and the arguments of `ttt_case.draw`, whose inputs and teacher are used. For each directory the loss, and a file
`peer.safetensors` in it: `logits.{step}` for each TTT step and `gradient.{name}` of each tensor, by public name.

The model is what `from_pretrained` makes of the directory, verifier included: it reads teacher's norm and head from the
target that the file names. Two things are set: the attention, since the default one has no backward on a CPU, and the
head, which speculators freezes, is trained.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from speculators.losses import resolve_loss_config
from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig

from .ttt_case import Case, draw
from .ttt_speculators import ATTENTION, Speculators


class Exported(Speculators):
    """The peer's draft as it reads it from disk."""

    def __init__(self, case: Case, directory: Path, attention: str) -> None:
        self.case = case
        config = Eagle3SpeculatorConfig.from_pretrained(directory)
        config.transformer_layer_config._attn_implementation = ATTENTION[attention]
        self.model = Eagle3DraftModel.from_pretrained(directory, config=config, dtype=torch.float32)
        stored, held = load_file(directory / "model.safetensors"), self.model.state_dict()
        lacks = held.keys() - stored.keys() - {"verifier_norm.weight", "verifier_lm_head.weight"}
        other = [name for name in stored if name not in held or not torch.equal(stored[name], held[name])]
        if lacks or other:
            raise ValueError(f"speculators does not read {directory} whole: it lacks {lacks}, other values in {other}")
        if not torch.equal(self.model.verifier_lm_head.weight, case.teacher_head_NH):
            raise ValueError("speculators takes other rows of the target's head than the mapping names")
        self.model.lm_head.weight.requires_grad_(True)
        self.losses = resolve_loss_config("kl_div", "eager")


def answer(directory: Path, case: Case, attention: str) -> float:
    system = Exported(case, directory, attention)
    said: list[torch.Tensor] = []
    system.model.lm_head.register_forward_hook(lambda module, given, logits: said.append(logits.detach().clone()))
    system.model.train()
    loss = system.loss()
    loss.backward()
    found = {f"logits.{step}": logits[0] for step, logits in enumerate(said)}
    found |= {f"gradient.{name}": p.grad for name, p in system.parameters().items() if p.grad is not None}
    save_file({name: tensor.contiguous() for name, tensor in found.items()}, directory / "peer.safetensors")
    return float(loss.detach())


def main() -> int:
    request = json.loads(sys.argv[1])
    directories, attention = [Path(one) for one in request.pop("directories")], request.pop("attention")
    case = draw(**request)
    print(json.dumps([answer(directory, case, attention) for directory in directories]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
