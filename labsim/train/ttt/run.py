"""A whole training: read the answers, check that they fit the target, train, and write the draft with its recipe."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import takewhile, zip_longest
from pathlib import Path

import torch

from ...features.source import Online, StateSource
from ...features.store import FeatureSettings, FeatureStore, fingerprint, kept
from ...models.config import read_json
from ...models.fields import shown
from ...models.files import write_atomically
from ...models.live_bytes import peak_bytes
from ...models.load import Target, directory_called, load_target
from ...models.paths import data_directory
from ...models.weights import DTYPES
from ...parallel.agree import agree
from ...parallel.layout import Kind
from ...parallel.mesh import Mesh
from ..answer_store import read_answers, read_settings
from ..places import check_apart, check_distinct
from ..small_data import split
from .build import build, covered, start_from
from .checkpoint import NAME
from .data import Document, PackedRow, documents, pack
from .estimate import estimate_by_domain
from .loop import CURVE, LOOKS, Report, check_enough, identity_of, train
from .loss import Teacher, row_loss
from .part import Part
from .recipe import TTTRecipe

HELD_OUT_DOCUMENTS = 48


@dataclass(frozen=True)
class Data:
    """Training and held-out documents, and the settings of the directories that they come from."""

    training: list[Document]
    held_out: list[Document]
    sources: list[dict[str, object]]


def find(name: str, target_name: str) -> list[Path]:
    """Directories of answers: a directory itself, or `shipped` for those in `data/answers/<target>`."""
    if directory := directory_called(name):
        return [directory]
    shipped = data_directory() / "answers" / Path(target_name).name
    if name == "shipped" and shipped.is_dir():
        return sorted(child for child in shipped.iterdir() if (child / "settings.json").exists())
    raise ValueError(
        f"data {shown(name)} is neither a directory of answers (labsim data generate) nor 'shipped', "
        f"which stands for the project's own answers of nano and smollm2"
    )


def read_data(
    folders: Sequence[Path], target: Target, seq: int, *, domains: Sequence[str] = (), any_template: bool = False
) -> Data:
    """Documents of all directories. ValueError for answers of another target or chat template."""
    ending, weights = generation_prompt(target), fingerprint(target.directory)
    training: list[Document] = []
    held_out: list[Document] = []
    sources = []
    for folder in folders:
        made_with = read_settings(folder)
        if made_with.target != target.name:
            raise ValueError(
                f"{folder} holds answers of {made_with.target}, not of {target.name}: a draft learns its own"
            )
        if made_with.vocab_size != target.model.config.vocab_size:
            raise ValueError(
                f"{folder} holds answers over {made_with.vocab_size} tokens; {target.name} has "
                f"{target.model.config.vocab_size}: it is another version of the target"
            )
        if made_with.weights not in (None, weights):
            raise ValueError(
                f"{folder} holds answers of other weights of {target.name}, which was trained or fetched anew since: "
                "generate them again"
            )
        answers = read_answers(folder)
        if domains:
            answers = [answer for answer in answers if answer.domain in domains]
        for answer in answers:
            if not any_template and ending and answer.prompt_ids[-len(ending) :] != ending:
                raise ValueError(
                    f"{folder}: the prompt of {answer.prompt} does not end as {target.name}'s chat template ends. "
                    "Trained on another template, a draft meets unknown prompts (--any-template allows it)"
                )
        ours, theirs = split(answers)
        greedy = made_with.temperature == 0
        training += documents(ours, seq, greedy=greedy)
        held_out += documents(theirs, seq, greedy=True) if greedy else []
        sources.append(asdict(made_with) | {"answers": len(answers)})
    return Data(training, spread(held_out, HELD_OUT_DOCUMENTS), sources)


def generation_prompt(target: Target) -> tuple[int, ...]:
    """The tokens with which every rendered prompt ends; empty for a target without a chat template."""
    if not target.tokenizer.chat_template:
        return ()
    first, second = (target.encode_chat(text) for text in ("one", "Is 2 right?"))
    same = takewhile(lambda pair: pair[0] == pair[1], zip(reversed(first), reversed(second), strict=False))
    return tuple(reversed([token for token, _ in same]))


def spread(documents: Sequence[Document], count: int) -> list[Document]:
    """At most `count` documents, the same number of each domain as far as there are."""
    by_domain: dict[str, list[Document]] = {}
    for document in sorted(documents, key=lambda document: document.key):
        by_domain.setdefault(document.domain, []).append(document)
    turns = zip_longest(*by_domain.values())
    return [document for turn in turns for document in turn if document is not None][:count]


def run(
    target_name: str,
    data: Sequence[str],
    recipe: TTTRecipe,
    out: Path,
    *,
    domains: Sequence[str] = (),
    features: Path | None = None,
    begin: Path | None = None,
    any_template: bool = False,
    fresh: bool = False,
    device: str | None = None,
    target_dtype: str | None = None,
    told: Callable[[Report], None] = lambda _: None,
    filled: Callable[[int, int], None] = lambda _done, _all: None,
    mesh: Mesh | None = None,
    layout: Kind = "zigzag",
) -> dict[str, object]:
    """The JSON document of `labsim train`. `begin` is a draft to train on; None starts from the target. `fresh` starts
    over where `out` holds a training, once it is sure that another one can begin. `target_dtype` is the precision in
    which the target makes its states, one of `DTYPES`; None is the device's own (fp32 on a CPU, bf16 on a GPU).

    With a mesh its ranks share each row; all call this with the same arguments and paths, and the first one writes.
    """
    mesh = mesh or Mesh.alone()
    if mesh.size > 1 and recipe.draft == "heads":
        raise ValueError(
            "draft 'heads' has no attention to share among ranks: train it on one, without ring or ulysses"
        )
    # With states on disk the target's layers are needed only by whoever makes them.
    dtype = DTYPES[target_dtype] if target_dtype else None
    target = load_target(target_name, device=device, dtype=dtype, layers=features is None)
    folders = [folder for name in data for folder in find(name, target_name)]
    check_distinct("--data", folders)
    inputs = {"--target": target.directory, "--start-from": begin} | {f"--data {one}": one for one in folders}
    check_apart({"--out": out, "--features": features}, inputs)
    read = read_data(folders, target, recipe.seq, domains=domains, any_template=any_template)
    check_enough(read.training, read.held_out)
    draft, vocabulary = start_from(begin, recipe, target) if begin else build(recipe, target, read.training)
    layers = draft.config.feature_layers
    if features is None:
        source: StateSource = Online(target.model, layers)
    else:
        source = stored_states(target, layers, features, [*read.training, *read.held_out], filled, mesh)
    identity = identity_of(recipe, target, read.training)
    identity |= {"begin": fingerprint(begin) if begin else None, "target_dtype": target_dtype}
    # Under the names of the command line.
    meant = {**asdict(recipe), "target": target.name, "data": identity["documents"], "start-from": identity["begin"]}
    meant |= {"layout": layout, "target-dtype": target_dtype}
    agree(mesh.world, meant, target.model.device)
    peak = measure_peak(draft, vocabulary, target, source, read.training, recipe, mesh, layout)
    if fresh:
        if mesh.world.rank == 0:
            forget(out)
        mesh.world.meet("old state is gone")
    counters = train(
        draft, vocabulary, target, source, read.training, read.held_out, recipe, out,
        identity=identity, told=told, mesh=mesh, layout=layout,
    )  # fmt: skip
    best, _ = start_from(out, recipe, target)
    found = estimate_by_domain(
        best, read.held_out, source, target.model.head, vocabulary, recipe, recipe.k, mesh, layout, depths=recipe.ttt
    )
    lines = (out / CURVE).read_text().splitlines()[1:]
    if not lines:
        raise ValueError(
            f"{out / CURVE} lacks the steps of the training whose state is beside it: put it back, or --fresh"
        )
    report: dict[str, object] = {
        "draft": recipe.draft,
        "target": target.name,
        "target_dtype": next(name for name, dtype in DTYPES.items() if dtype == target.model.dtype),
        "steps": counters.step,
        "loss": float(lines[-1].split(",")[2]),
        "per_depth_accuracy": list(found["all"].marginal),
        "acceptance_length": found["all"].acceptance_length,
        "best_step": counters.best_step,
        "k": recipe.k,
        "held_out": {
            domain: {
                "documents": one.documents,
                "acceptance_length": one.acceptance_length,
                "survival": list(one.survival),
                "conditional": list(one.conditional),
            }
            for domain, one in found.items()
        },
        "tokens": counters.tokens,
        "tokens_per_second": counters.tokens / counters.seconds if counters.seconds else None,
        "seconds": counters.seconds,
        "peak_memory_bytes": peak,
        "parameters": sum(parameter.numel() for parameter in draft.parameters()),
        "draft_vocabulary": len(vocabulary),
        # A token outside is never drafted: the second of these is the most that any depth can accept.
        "coverage": {"training": covered(read.training, vocabulary), "held_out": covered(read.held_out, vocabulary)},
        "ranks": {"ring": mesh.ring.size, "ulysses": mesh.ulysses.size, "layout": layout} if mesh.size > 1 else None,
        "out": str(out),
    }
    if mesh.world.rank == 0:
        write_recipe(out, recipe, report, read, begin)
    return report


def forget(out: Path) -> None:
    """The traces of a training in its directory. Its draft stays until there is a better one of the next training."""
    for name in ("recipe.json", NAME, CURVE, LOOKS):
        (out / name).unlink(missing_ok=True)


def stored_states(
    target: Target,
    layers: Sequence[int],
    features: Path,
    needed: Sequence[Document],
    filled: Callable[[int, int], None],
    mesh: Mesh,
) -> FeatureStore:
    """A directory of the target's states, completed first, each rank its share; the target's layers are gone then."""
    settings = FeatureSettings(target.name, fingerprint(target.directory), tuple(layers))
    first = mesh.world.rank == 0
    finished = 0

    def done(count: int) -> None:
        nonlocal finished
        finished += count
        filled(finished, len(mine))

    with kept(features) if first else nullcontext():
        store = FeatureStore(features, settings) if first else None
        mesh.world.meet("states on disk are whole")
        store = store or FeatureStore(features, settings, check=False)
        missing = sorted(
            {one.tokens for one in needed if not store.holds(one.tokens)}, key=lambda tokens: (len(tokens), tokens)
        )
        mine = missing[mesh.world.rank :: mesh.size]
        if mine:
            whole = load_target(target.name, device=target.model.device, dtype=target.model.dtype)
            store.fill(Online(whole.model, layers), mine, done=done)
        mesh.world.meet("target states are there")
    store.refresh()
    return store


def measure_peak(
    draft: torch.nn.Module, vocabulary: object, target: Target, source: StateSource, training: Sequence[Document],
    recipe: TTTRecipe, mesh: Mesh, layout: Kind,
) -> int:  # fmt: skip
    """Live bytes at this rank's worst moment of one training step, above what is there before; nothing is changed."""
    if not training:
        return 0
    row = PackedRow.of(pack(training, recipe.seq, recipe.seed, 0)[0])
    part = Part.of(row, mesh, recipe.ttt, layout) if mesh.size > 1 else None
    states = part.states(source) if part else source.read([document.tokens for document in row.documents])

    def step() -> None:
        last_LE = torch.cat([one.last_TE for one in states]).to(target.model.device)
        teacher = Teacher.of(row, last_LE, target.model.head, vocabulary, keep=not recipe.logit_chunk, part=part)
        row_loss(draft, row, states, teacher, recipe, part=part)[0].backward()

    try:
        return peak_bytes(step, target.model.device)
    finally:
        draft.zero_grad(set_to_none=True)


def write_recipe(
    out: Path, recipe: TTTRecipe, report: dict[str, object], read: Data, begin: Path | None = None
) -> None:
    """OUT/recipe.json: what made the draft, and what it reached; under `begin` the recipe of the draft before it."""
    summary = {
        "recipe": asdict(recipe),
        "data": read.sources,
        "training_documents": len(read.training),
        "training_answer_tokens": sum(document.answer_tokens for document in read.training),
        "result": {key: value for key, value in report.items() if key != "out"},
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }
    if begin is not None:
        before = begin / "recipe.json"
        summary["begin"] = read_json(before) if before.exists() else {"draft": begin.name}
    write_atomically(out / "recipe.json", (json.dumps(summary, indent=2) + "\n").encode())
