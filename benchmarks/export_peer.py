"""Does `speculators` compute from our export what we compute from our draft?

    python benchmarks/export_peer.py            # every variant, with each attention that trains on a CPU
    python benchmarks/export_peer.py --json

A random draft of each variant goes through `labsim.checkpoints.export`, in float32. The peer loads the directory with
its own `from_pretrained` and computes logits, loss and gradients of training-time test; ours computes the same from the
draft before the export. Relative differences, |a - b| / |b|: of the logits over all positions that count, of the loss
(the teacher's entropy, computed apart, lies between a cross-entropy and a KL divergence), of the furthest gradient.

The peer has its own environment: python benchmarks/peers/build_speculators.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from peers.ttt_case import EPS, ROPE_THETA, Case, draw
from peers.ttt_ours import config_of, teacher_entropy, ttt_loss
from safetensors.torch import load_file, save_file
from ttt_step import furthest, peer_python

from labsim.checkpoints.export import export
from labsim.drafts.eagle import EagleDraft
from labsim.drafts.eagle_checkpoint import save_draft
from labsim.drafts.vocabulary import DraftVocabulary

HERE = Path(__file__).resolve().parent
TARGET_LAYERS, TOLERANCE = 30, 1e-5
VARIANTS: dict[str, tuple[str, ...]] = {
    "eagle3": (),
    "eagle3.1": ("fc_norm", "norm_output"),
    "gpt-oss": ("norm_before_fc", "norm_before_residual"),
    "speculators' own default": ("norm_before_fc", "norm_output", "norm_before_residual"),
}
REQUEST = {"name": "tiny", "length": 40, "ttt": 5, "decay": 0.8, "answers": 0.7, "seed": 3}


@dataclass(frozen=True)
class Agreement:
    """Relative differences of one variant."""

    variant: str
    attention: str
    loss: float
    peer_loss: float
    logits_difference: float
    loss_difference: float
    gradient_difference: float
    gradient: str

    @property
    def agrees(self) -> bool:
        return max(self.logits_difference, self.loss_difference, self.gradient_difference) <= TOLERANCE


def draft_of(case: Case, flags: tuple[str, ...], seed: int = 7) -> EagleDraft:
    """A draft with the case's sizes and these flags; norm weights around 1."""
    layers = (2, TARGET_LAYERS // 2, TARGET_LAYERS - 3)
    config = config_of(case, feature_layers=layers, max_positions=256, **dict.fromkeys(flags, True))
    draft, generator = EagleDraft(config, case.embedding_VH), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in draft.parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(drawn * parameter.shape[-1] ** -0.5 if parameter.ndim == 2 else 1 + 0.2 * drawn)
    return draft


def write_target(directory: Path, case: Case, vocabulary: DraftVocabulary) -> None:
    """As much of a target as export and peer read: config.json, embedding, final norm, and a head with the case's."""
    sizes = case.sizes
    directory.mkdir()
    document = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": sizes.vocab,
        "hidden_size": sizes.hidden,
        "intermediate_size": sizes.intermediate,
        "num_hidden_layers": TARGET_LAYERS,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "head_dim": sizes.head,
        "max_position_embeddings": 256,
        "rms_norm_eps": EPS,
        "rope_theta": ROPE_THETA,
    }
    (directory / "config.json").write_text(json.dumps(document))
    head_VH = torch.zeros_like(case.embedding_VH)
    head_VH[vocabulary.ids_N] = case.teacher_head_NH
    tensors = {
        "model.embed_tokens.weight": case.embedding_VH,
        "model.norm.weight": case.teacher_norm_H,
        "lm_head.weight": head_VH,
    }
    save_file(tensors, directory / "model.safetensors")


def compare(attention: str, python: Path) -> list[Agreement]:
    """Every variant, in one process of the peer."""
    case = draw(**REQUEST)
    ids = torch.randperm(case.sizes.vocab, generator=torch.Generator().manual_seed(1))[: case.sizes.draft_vocab]
    vocabulary = DraftVocabulary.of(ids, case.sizes.vocab)
    with tempfile.TemporaryDirectory() as folder:
        write_target(Path(folder) / "target", case, vocabulary)
        drafts, directories = {}, {}
        for index, (name, flags) in enumerate(VARIANTS.items()):
            draft = draft_of(case, flags)
            source, out = Path(folder) / f"draft-{index}", Path(folder) / f"export-{index}"
            save_draft(source, draft, vocabulary, "someone", dtype=torch.float32)
            export(source, out, "speculators", target_name=str(Path(folder) / "target"), dtype="fp32", k=case.ttt)
            drafts[name], directories[name] = draft, out
        losses = ask_peer(list(directories.values()), attention, python)
        found = []
        for (name, draft), theirs in zip(drafts.items(), losses, strict=True):
            found.append(
                differences(name, attention, draft, case, theirs, load_file(directories[name] / "peer.safetensors"))
            )
        return found


def ask_peer(directories: list[Path], attention: str, python: Path) -> list[float]:
    """RuntimeError, with the end of its words, when the peer breaks off."""
    request = {**REQUEST, "device": "cpu", "directories": [str(one) for one in directories], "attention": attention}
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "HF_HUB_OFFLINE": "1"}
    command = [str(python), "-m", "peers.export_worker", json.dumps(request)]
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"speculators, {attention}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def differences(
    name: str, attention: str, draft: EagleDraft, case: Case, peer_loss: float, theirs: dict[str, torch.Tensor]
) -> Agreement:
    """Ours against the peer's file."""
    loss, _ = ttt_loss(draft, case, "reference")
    loss.backward()
    gradients = {f"gradient.{key}": p.grad for key, p in draft.named_parameters()}
    peer = {key: tensor for key, tensor in theirs.items() if key.startswith("gradient.")}
    logits = 0.0
    with torch.no_grad():
        for step in draft.ttt_forward(case.tokens_1T, case.features_1LF, case.ttt, kernel="reference"):
            rows = case.length - step.step
            ours_RN = draft.logits(step.output_BLH[0, :rows], step.step)
            theirs_RN = theirs[f"logits.{step.step}"][:rows]
            logits = max(logits, float((ours_RN - theirs_RN).norm() / theirs_RN.norm()))
    worst, gradient = furthest(gradients, peer)
    mine = float(loss.detach()) - teacher_entropy(case)
    return Agreement(name, attention, mine, peer_loss, logits, abs(mine - peer_loss) / abs(peer_loss), gradient, worst)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_args()
    try:
        python = peer_python()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    found = [one for attention in ("eager", "sdpa") for one in compare(attention, python)]
    if options.json:
        print(json.dumps([asdict(one) | {"agrees": one.agrees} for one in found], indent=2))
    else:
        for one in found:
            print(
                f"{'same' if one.agrees else 'NOT THE SAME'}: {one.variant}, {one.attention}: logits within "
                f"{one.logits_difference:.1e}, loss {one.loss_difference:.1e}, gradients {one.gradient_difference:.1e} "
                f"(the furthest: {one.gradient})"
            )
    return 0 if all(one.agrees for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
