"""What the doctor knows of the target: its config.json always, its weights and tokenizer where they are there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..models.config import ModelConfig, read_json
from ..models.load import NAMED, TOKENIZER_FILES, locate


@dataclass(frozen=True)
class TargetFacts:
    """A target by its files, not loaded.

    Attributes:
        runnable: weights and a tokenizer are there, so the behavioural check can run.
    """

    name: str
    directory: Path
    raw: dict[str, Any]
    config: ModelConfig
    runnable: bool

    @property
    def known_by_name(self) -> bool:
        """Named targets and hub ids mean the same everywhere; a directory's name means nothing elsewhere."""
        return self.name in NAMED or not Path(self.name).expanduser().is_dir()


def target_facts(name: str) -> TargetFacts:
    """ValueError for a target that cannot be found, or whose config.json cannot be read."""
    directory = locate(name)
    raw = read_json(directory / "config.json")
    weights = any(directory.glob("*.safetensors"))
    tokenizer = any((directory / file).is_file() for file in TOKENIZER_FILES)
    return TargetFacts(name, directory, raw, ModelConfig.from_dict(raw, str(directory)), weights and tokenizer)
