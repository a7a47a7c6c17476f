"""What lies beside the weights: tokenizer, chat template, recipe, and the name of the target.

A draft learns to continue one rendering of conversations. Served under another chat template, or another thinking
mode, it meets prompts it never saw: training figures stay good and acceptance in service is low.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..features.store import fingerprint
from ..models.config import read_json
from .check import Check, fault, listed, ok, unchecked, warning
from .layers import inside
from .on_disk import OnDisk
from .target import TargetFacts

RECIPE = "recipe.json"


def beside_checks(disk: OnDisk, target: TargetFacts) -> list[Check]:
    """Files that only some drafts bring along; what is not there is not compared."""
    return [*template_checks(disk, target), *tokenizer_checks(disk, target), *target_checks(disk, target)]


def chat_template(directory: Path) -> str | dict[str, str] | None:
    """The template of a directory: its own file, or tokenizer_config.json's entry. ValueError for a damaged file."""
    for name in ("chat_template.jinja", "chat_template.json"):
        path = directory / name
        if path.is_file():
            return path.read_text("utf-8") if path.suffix == ".jinja" else read_json(path).get("chat_template")
    settings = directory / "tokenizer_config.json"
    found = read_json(settings).get("chat_template") if settings.is_file() else None
    if isinstance(found, list):
        return {str(one.get("name")): str(one.get("template")) for one in found if isinstance(one, dict)}
    return found


def template_checks(disk: OnDisk, target: TargetFacts) -> Iterator[Check]:
    """The template beside the draft against the target's."""
    try:
        own, theirs = chat_template(disk.directory), chat_template(target.directory)
    except (ValueError, OSError) as error:
        yield damaged("template", error)
        return
    if own is None:
        yield ok("template", "none beside the draft: the target's is used")
    elif theirs is None:
        yield unchecked("template", f"{target.name} has no chat template to compare with")
    elif own == theirs:
        yield ok("template", "the one beside the draft is the target's")
    else:
        yield fault(
            "template: differs",
            f"the chat template beside the draft is not that of {target.name}",
            "good training figures, low acceptance in service: prompts are rendered as the draft never saw them",
            "serve with the template of the training, or generate answers with the target's and train on them",
        )


def tokenizer_checks(disk: OnDisk, target: TargetFacts) -> Iterator[Check]:
    """The token table beside the draft against the target's."""
    own, theirs = disk.directory / "tokenizer.json", target.directory / "tokenizer.json"
    if not own.is_file() or not theirs.is_file():
        return
    try:
        tables = [read_json(path).get("model", {}).get("vocab") for path in (own, theirs)]
    except (ValueError, AttributeError) as error:
        yield damaged("tokenizer", error)
        return
    if tables[0] == tables[1]:
        yield ok("tokenizer", "the token table beside the draft is the target's")
    else:
        yield fault(
            "tokenizer: differs",
            f"tokenizer.json beside the draft names other tokens than that of {target.name}",
            "the draft was trained on another model's ids: acceptance length about 1",
            "use the draft of this target",
        )


def damaged(name: str, error: Exception) -> Check:
    return warning(
        f"{name}: unreadable",
        f"{type(error).__name__}: {error}",
        "an engine that prefers the draft's files stops",
        "delete the file beside the draft: the target's is used then",
    )


def weights_checks(recipe: dict[str, Any], target: TargetFacts) -> Iterator[Check]:
    """The answers that it learnt from: of these weights, or of others under the same name?"""
    data = recipe.get("data")
    weights = [one.get("weights") for one in data if isinstance(one, dict)] if isinstance(data, list) else []
    said = {one for one in weights if isinstance(one, str) and one}
    if not said or not any(target.directory.glob("*.safetensors")):
        return
    here = fingerprint(target.directory)
    if said == {here}:
        yield ok("weights of the target", f"the answers were those of this {target.name} (fingerprint {here})")
    else:
        yield fault(
            "target: other weights",
            f"the answers are of weights {listed(said)}, and {target.name} here is {here}",
            "the name is the same and the habits are not: acceptance lower at every depth",
            "train on answers of the target as it is now",
        )


def same_target(name: str, target: TargetFacts) -> bool:
    """By name, or as the directory that the name stands for."""
    try:
        return name == target.name or Path(name).expanduser().resolve() == target.directory.resolve()
    except (OSError, RuntimeError):  # a name that no file system takes
        return False


def target_checks(disk: OnDisk, target: TargetFacts) -> Iterator[Check]:
    """For which target it was trained, as far as any file says."""
    speculators = disk.raw.get("speculators_config")
    names: dict[str, Any] = {
        "labsim.target": inside(disk.raw, "labsim", "target"),
        "verifier.name_or_path": inside(speculators, "verifier", "name_or_path")
        if isinstance(speculators, dict)
        else None,
    }
    path = disk.directory / RECIPE
    if path.is_file():
        try:
            recipe = read_json(path)
        except ValueError as error:
            yield damaged("recipe", error)
        else:
            names[RECIPE] = inside(recipe, "result", "target")
            yield from weights_checks(recipe, target)
    said = {key: name for key, name in names.items() if isinstance(name, str) and name}
    other = {key: name for key, name in said.items() if not same_target(name, target)}
    if not said:
        yield unchecked("target", "no file names the target that it was trained for")
    elif not other:
        yield ok("target", f"trained for {target.name}, as {', '.join(said)} says")
    else:
        key, name = next(iter(other.items()))
        make = fault if key == "labsim.target" and target.known_by_name else warning
        yield make(
            "target: another",
            f"{key} is {name!r}, and the target given is {target.name!r}",
            "a draft of another model, or of another training of it, accepts little",
            "give the target it was trained for" + ("" if make is fault else "; the same model may have two names"),
        )
