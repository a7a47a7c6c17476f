"""`labsim draft doctor`: is this checkpoint what it says, before anyone serves it?

Most faults of a draft raise no error. Text stays right, since the target judges every token, and what falls is the
acceptance, which nobody knows beforehand. So everything is compared with everything: the files, config.json's flags
with the tensors, the tensors with each other, all of it with the target's own config.json; and at the end, if the
target can be run, the draft with itself wired otherwise (`behaviour`).

The doctor goes on after a fault and reads damaged files as findings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..drafts.eagle_dialects import DraftConfig
from ..models.load import Target, load_target
from ..train.ttt.data import Document
from .behaviour import Behaviour, behave
from .beside import beside_checks
from .check import Check, Told, unchecked, untold
from .damage import damage_checks
from .layers import layer_checks
from .mapping import mapping_checks
from .norms import norm_checks, norm_output_note
from .on_disk import OnDisk, read_directory
from .positions import position_checks
from .sizes import size_checks
from .small_draft import small_checks
from .target import TargetFacts, target_facts
from .tensors import embedding_checks, tensor_checks, value_checks


@dataclass(frozen=True)
class Diagnosis:
    """All findings about one directory.

    Attributes:
        ok: no fault; there may be warnings and things that were not checked.
        kind, dialect: of the draft; None where config.json does not say.
    """

    directory: Path
    target: str
    kind: str | None
    dialect: str
    checks: tuple[Check, ...]
    behaviour: Behaviour | None = None

    @property
    def ok(self) -> bool:
        return not self.faults

    @property
    def faults(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.status == "fault")

    def document(self) -> dict[str, Any]:
        """For JSON."""
        result: dict[str, Any] = {
            "ok": self.ok,
            "directory": str(self.directory),
            "target": self.target,
            "kind": self.kind,
            "dialect": self.dialect,
            "checks": [asdict(check) for check in self.checks],
        }
        if self.behaviour and self.behaviour.configured:
            configured = self.behaviour.configured
            result["acceptance"] = {
                "texts": self.behaviour.texts,
                "places": len(configured.runs_P),
                "accepted": configured.accepted,
                "survival": configured.survival,
                "conditional": configured.conditional,
                "variants": [
                    {
                        "fault": one.variant.name,
                        "variant": one.variant.says,
                        "survival": one.curve.survival,
                        "gain": one.gain,
                        "interval": one.interval,
                    }
                    for one in self.behaviour.tried
                ],
            }
        return result


def examine(
    directory: str | Path,
    target_name: str,
    *,
    run: bool = True,
    load: Callable[[str], Target] = load_target,
    texts: Sequence[Document] | None = None,
    told: Told = untold,
) -> Diagnosis:
    """Every check.

    Args:
        run: False leaves out what needs the target's weights.
        load: gives the target where it is run.
        texts: greedy answers of the target to draft on; by default it is asked for some (`curve.greedy_texts`).
        told: hears how far the behavioural check is, which takes a minute.

    ValueError for a directory that is not there, and for a target that cannot be found or read.
    """
    facts = target_facts(target_name)
    disk = read_directory(directory)
    directory = disk.directory
    checks = [*disk.checks]
    if disk.kind == "small":
        checks += [*small_checks(disk, facts), *(damage_checks(disk) if disk.tensors else ())]
        return Diagnosis(directory, target_name, disk.kind, disk.dialect, tuple(checks))
    config: DraftConfig | None = None
    if disk.kind is not None:
        config, found = size_checks(disk, facts)
        checks += found
    checks += static_checks(disk, config, facts)
    behaviour = None
    if not run:
        checks.append(unchecked("acceptance", "not asked for (--no-run)"))
    elif config is None or not disk.tensors:
        checks.append(unchecked("acceptance", "config.json or the weights must be mended first"))
    elif not facts.runnable:
        checks.append(unchecked("acceptance", f"{facts.directory} holds no weights, or no tokenizer, to run"))
    else:
        behaviour = behave(disk, config, facts, load(target_name), texts, told)
        checks = [*judged_by_acceptance(checks, behaviour), *behaviour.checks]
    # Public files do not tell 3 from 3.1 by name: their flags do.
    kind = config.kind if config is not None else disk.kind
    return Diagnosis(directory, target_name, kind, disk.dialect, tuple(checks), behaviour)


def judged_by_acceptance(checks: list[Check], behaviour: Behaviour) -> list[Check]:
    """Layers one off the usual choice are a fault until the usual ones are seen to accept clearly less."""
    usual = [one for one in behaviour.tried if one.variant.name == "feature layers: one off"]
    if not usual or max(one.interval.high for one in usual) >= 0:
        return checks
    said = "; both neighbouring choices accept clearly less, so it was trained with these"
    return [
        replace(check, status="warning", finding=check.finding + said)
        if check.name == "feature layers: one off the usual"
        else check
        for check in checks
    ]


def static_checks(disk: OnDisk, config: DraftConfig | None, facts: TargetFacts) -> list[Check]:
    """Everything that needs no running; what needs config.json's values waits for them."""
    checks: list[Check] = []
    mend = "config.json must be mended first"
    if disk.raw and disk.kind is not None:
        checks += layer_checks(disk, facts)
    else:
        checks.append(unchecked("feature layers", mend))
    if config is None:
        checks += [unchecked(name, mend) for name in ("d2t", "tensors", "embeddings")]
    elif disk.tensors:
        checks += mapping_checks(disk, config) + tensor_checks(disk, config) + embedding_checks(disk, config)
    else:
        checks += [unchecked(name, "there are no weights to look at") for name in ("d2t", "tensors")]
    if disk.tensors:
        checks += value_checks(disk) + damage_checks(disk) + norm_checks(disk)
    if disk.raw:
        if disk.eagle3:
            checks.append(norm_output_note(disk.raw))
        if disk.kind != "heads":
            checks += position_checks(disk, facts)
    else:
        checks.append(unchecked("rope", mend))
    return checks + (beside_checks(disk, facts) if disk.raw else [])
