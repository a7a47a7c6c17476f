"""Answers on disk: what a target said to each prompt, as token ids, in files that a killed run cannot spoil.

    DIR/settings.json                          what every answer in DIR was made with
    DIR/answers-00000-3f2a91c07be4.safetensors a shard: some dozens of answers

A shard is written beside its place and renamed, and its name carries the beginning of its own sha256. So a shard is
there and whole, or not there at all; no index can disagree with the files; and one read shows which prompts are done.
Ids take two bytes each for a vocabulary of up to 65,536 entries, four above.

Inside a shard: `tokens`, prompt and answer of each record, one behind the other; `prompt_lengths`, `answer_lengths` and
`stopped`, one entry per record; the prompt ids and sample numbers as JSON in the header. Where the run kept them, also
`top_ids` and `top_logprobs`: for each answer token the target's most likely tokens at its place and their logarithms of
probability, which teach a draft more than the one token that was chosen.

Shapes: A answer tokens, T kept candidates.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError, safe_open

from ..models.config import LARGEST_SIZE, read_json
from ..models.fields import Fields, short
from ..models.files import digest, write_atomically
from ..models.sampling import HIGHEST_TEMPERATURE
from ..models.weights import tensor_bytes


@dataclass(frozen=True)
class Answer:
    """One answer of the target.

    Attributes:
        prompt: the prompt's id; `sample` numbers the answers to the same prompt from 0.
        domain: of the prompt (chat, code, agent, document).
        prompt_ids: the rendered conversation up to where the answer begins.
        answer_ids: what the target said, with the stop token as its last when `finish` is "stop".
        top_ids_AT, top_logprobs_AT: the likeliest tokens at each place of the answer, in that order; None if not kept.
    """

    prompt: str
    sample: int
    domain: str
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    finish: Literal["stop", "length"]
    top_ids_AT: torch.Tensor | None = field(default=None, compare=False, repr=False)
    top_logprobs_AT: torch.Tensor | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> tuple[str, int]:
        return self.prompt, self.sample


@dataclass(frozen=True)
class AnswerSettings:
    """What all answers of a directory have in common.

    `weights` is a fingerprint of the target's (`labsim.features.store`): a name may stand for other weights tomorrow.
    `dtype` is what the target computed in; greedy answers in another one part at near-ties. None in directories that
    are older than these two.
    """

    target: str
    vocab_size: int
    max_new_tokens: int
    temperature: float
    seed: int
    top_logprobs: int = 0
    weights: str | None = None
    dtype: str | None = None


class AnswerStore:
    """A directory of answers made with one set of settings.

    ValueError when the directory holds answers made with other settings: they would be mixed silently otherwise.
    """

    def __init__(self, directory: Path, settings: AnswerSettings) -> None:
        self.directory = directory
        self.settings = settings
        path = directory / "settings.json"
        if path.exists():
            found = read_settings(directory)
            if settings.weights and found.weights not in (None, settings.weights):
                raise ValueError(
                    f"{directory} holds answers of other weights of {found.target} (fingerprint {found.weights}, not "
                    f"{settings.weights}): it was trained or fetched anew since; give another --out"
                )
            wanted = asdict(settings)
            if found.dtype is None:
                wanted["dtype"] = None
            differing = [f"{k} {v}" for k, v in asdict(found).items() if k != "weights" and v != wanted[k]]
            if differing:
                raise ValueError(f"{directory} holds answers made with {', '.join(differing)}; give another --out")
        elif directory.is_dir() and shards(directory):
            raise ValueError(
                f"{directory} holds answers and no settings.json, which says what they were made with: put it back, or "
                "give another --out"
            )
        else:
            directory.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(asdict(settings), indent=2).encode())

    def add(self, answers: Sequence[Answer]) -> Path:
        """Write one more shard."""
        data = shard_bytes(answers, self.settings.vocab_size)
        number = 1 + max((int(path.name.split("-")[1]) for path in shards(self.directory)), default=-1)
        path = self.directory / f"answers-{number:05d}-{digest(data)}.safetensors"
        write_atomically(path, data)
        return path

    def merge(self) -> None:
        """Replace all shards by one. A kill in between leaves some answers twice, which reading undoes."""
        old = shards(self.directory)
        if len(old) > 1:
            self.add(sorted(read_answers(self.directory), key=lambda answer: answer.key))
            for path in old:
                path.unlink()


def read_settings(directory: Path) -> AnswerSettings:
    """Settings of a directory of answers; ValueError when it is none."""
    path = directory / "settings.json"
    if not path.exists():
        raise ValueError(f"{directory} holds no answers (no settings.json): make some with `labsim data generate`")
    raw = read_json(path)
    found = Fields(raw, str(path))
    if unknown := raw.keys() - {one.name for one in fields(AnswerSettings)}:
        raise ValueError(f"{path} is not the settings of `labsim data generate`: {short(min(unknown))} is unknown")
    return AnswerSettings(
        target=found.text("target"),
        vocab_size=found.whole("vocab_size", 1, LARGEST_SIZE),
        max_new_tokens=found.whole("max_new_tokens", 1, LARGEST_SIZE),
        temperature=found.number("temperature", 0, HIGHEST_TEMPERATURE),
        seed=found.whole("seed", -(2**63), 2**64),
        top_logprobs=found.whole("top_logprobs", 0, LARGEST_SIZE, 0),
        weights=found.text("weights", None),
        dtype=found.text("dtype", None),
    )


def read_answers(directory: Path) -> list[Answer]:
    """All answers of a directory, in the order of its shards, each once. ValueError for a shard that is not whole."""
    read_settings(directory)
    by_key: dict[tuple[str, int], Answer] = {}
    for path in shards(directory):
        for answer in read_shard(path):
            by_key.setdefault(answer.key, answer)
    return list(by_key.values())


def shards(directory: Path) -> list[Path]:
    return sorted(directory.glob("answers-*-*.safetensors"))


def shard_bytes(answers: Sequence[Answer], vocab_size: int) -> bytes:
    dtype = torch.uint16 if vocab_size <= 1 << 16 else torch.int32
    tensors = {
        "tokens": torch.tensor([i for a in answers for i in (*a.prompt_ids, *a.answer_ids)], dtype=dtype),
        "prompt_lengths": torch.tensor([len(a.prompt_ids) for a in answers], dtype=torch.int32),
        "answer_lengths": torch.tensor([len(a.answer_ids) for a in answers], dtype=torch.int32),
        "stopped": torch.tensor([a.finish == "stop" for a in answers]),
    }
    if answers and answers[0].top_ids_AT is not None:
        tensors["top_ids"] = torch.cat([a.top_ids_AT for a in answers]).to(dtype)
        tensors["top_logprobs"] = torch.cat([a.top_logprobs_AT for a in answers]).to(torch.float16)
    names = {
        "prompts": [a.prompt for a in answers],
        "samples": [a.sample for a in answers],
        "domains": [a.domain for a in answers],
    }
    return tensor_bytes(tensors, {key: json.dumps(value) for key, value in names.items()})


def read_shard(path: Path) -> list[Answer]:
    """ValueError for a shard that is damaged, or that no store has written."""
    found = digest(path.read_bytes())
    if not path.stem.endswith(f"-{found}"):
        raise ValueError(f"{path} is damaged: its sha256 begins with {found}; delete it and generate again")
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            names = {key: json.loads(value) for key, value in (file.metadata() or {}).items()}
        return answers_of(tensors, names)
    except (SafetensorError, KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} is not a shard of answers ({error})") from error


def answers_of(tensors: dict[str, torch.Tensor], names: dict[str, list]) -> list[Answer]:
    prompt_lengths, answer_lengths = tensors["prompt_lengths"].tolist(), tensors["answer_lengths"].tolist()
    if len(tensors["tokens"]) != sum(prompt_lengths) + sum(answer_lengths):
        raise ValueError("its lengths do not add up to its tokens")
    stopped = tensors["stopped"].tolist()
    tokens = iter(tensors["tokens"].tolist())
    top = [tensors[key].split(answer_lengths) if key in tensors else None for key in ("top_ids", "top_logprobs")]
    answers = []
    for row, key in enumerate(zip(names["prompts"], names["samples"], names["domains"], strict=True)):
        prompt_ids = tuple(islice(tokens, prompt_lengths[row]))
        answer_ids = tuple(islice(tokens, answer_lengths[row]))
        candidates = [None if part is None else part[row] for part in top]
        finish = "stop" if stopped[row] else "length"
        answers.append(Answer(*key, prompt_ids, answer_ids, finish, *candidates))
    return answers


def answer_tokens(answers: Iterable[Answer]) -> int:
    return sum(len(answer.answer_ids) for answer in answers)
