"""`labsim usp`: sequence-parallel attention on real processes: is it right, what does it send, what does it hold."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import click

from ..models.config import LONGEST_CONTEXT
from .options import RANK_SECONDS, SEED, TokenRange, print_json, wrong_values_exit_2

if TYPE_CHECKING:
    from ..lab.usp_run import Problem, Share

LOCAL_RANKS = click.IntRange(1, 64)  # each is a process of this machine
TOLERANCES = {"float64": 1e-12, "float32": 5e-6, "bfloat16": 3e-2}


@click.command("usp")
@click.option("--world", type=LOCAL_RANKS, help="Ranks; by default ring x ulysses.")
@click.option("--ring", type=LOCAL_RANKS, default=2, show_default=True)
@click.option("--ulysses", type=LOCAL_RANKS, default=2, show_default=True)
@click.option("--layout", type=click.Choice(["zigzag", "contiguous"]), default="zigzag", show_default=True)
@click.option("--seq", type=TokenRange(1, LONGEST_CONTEXT), default=512, show_default=True, help="Tokens in all.")
@click.option("--heads", type=click.IntRange(1, 1024), default=8, show_default=True)
@click.option("--kv-heads", type=click.IntRange(1, 1024), default=2, show_default=True)
@click.option("--head-dim", type=click.IntRange(1, 1024), default=64, show_default=True)
@click.option("--batch", type=click.IntRange(1, 4096), default=1, show_default=True)
@click.option(
    "--ttt-steps", type=click.IntRange(0, 64), default=3, show_default=True, help="Branch steps; 0 is plain attention."
)
@click.option("--dtype", type=click.Choice(sorted(TOLERANCES)), default="float64", show_default=True)
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option(
    "--check",
    is_flag=True,
    help="Compare with dense attention in float64, by shares of a result's largest entry where that is above 1; exit "
    "status 1 where it differs.",
)
@click.option("--threads", is_flag=True, help="Logical ranks in one process in place of real ones.")
@click.option(
    "--timeout",
    type=RANK_SECONDS,
    default=25,
    show_default=True,
    help="Seconds that a living rank may be late; more for a --seq that takes longer between two messages.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    world: int | None,
    ring: int,
    ulysses: int,
    layout: str,
    seq: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    batch: int,
    ttt_steps: int,
    dtype: str,
    seed: int,
    check: bool,
    threads: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Run USP attention of training-time test, forward and backward, on ring x ulysses ranks of this machine.

    \b
    labsim usp --world 4 --ring 2 --ulysses 2 --seq 512 --ttt-steps 3 --check
    labsim usp --ring 4 --ulysses 1 --layout contiguous --dtype float32 --threads --json
    """
    import torch

    from ..attention.ulysses import check_heads
    from ..lab.usp_run import Problem
    from ..parallel.group import RankError
    from ..parallel.launch import RanksFailed
    from ..parallel.layout import Layout
    from ..parallel.mesh import check_degrees

    with wrong_values_exit_2():
        check_degrees(world or ring * ulysses, ring, ulysses)
        if ring * ulysses > LOCAL_RANKS.max:
            raise ValueError(
                f"--ring {ring} x --ulysses {ulysses} makes {ring * ulysses} ranks, each a process of this machine; "
                f"right is at most {LOCAL_RANKS.max}"
            )
        if heads % kv_heads:
            raise ValueError(f"--kv-heads is {kv_heads}, and {heads} query heads do not divide among so many")
        check_heads(heads, ulysses)
        check_room(ring * ulysses, batch * seq * (1 + ttt_steps), heads, kv_heads, head_dim, seq if check else 0)
        problem = Problem(
            Layout(seq, ring, ulysses, layout), heads, kv_heads, head_dim, ttt_steps, batch, getattr(torch, dtype), seed
        )
    try:
        shares = run(problem, check, threads, timeout)
    except RanksFailed as error:
        raise click.ClickException("; ".join(error.lines)) from error
    except RankError as error:
        raise click.ClickException(str(error)) from error
    report = describe(problem, shares, TOLERANCES[dtype] if check else None)
    if as_json:
        print_json(report)
    else:
        click.echo(in_words(report))
    if not report["passed"]:
        raise SystemExit(1)


def check_room(ranks: int, queries: int, heads: int, kv_heads: int, head_dim: int, dense: int) -> None:
    """ValueError where this machine cannot hold what is drawn, or what is compared with.

    Every rank draws all inputs in float64: queries, keys, values and output gradients. Dense attention keeps every
    score: of each query and head with `dense` keys.
    """
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    drawn, scores = 8 * ranks * queries * 2 * (heads + kv_heads) * head_dim, 8 * queries * heads * dense
    if scores > here:
        raise ValueError(
            f"--check compares with dense attention, whose scores are {scores / 1e9:,.1f} GB of {here / 1e9:,.1f}: "
            "give a shorter --seq, or leave --check out"
        )
    if drawn > here:
        raise ValueError(
            f"{ranks} ranks draw inputs of {drawn / 1e9:,.1f} GB here, and this machine has {here / 1e9:,.1f}: give a "
            "shorter --seq, fewer or narrower heads, or fewer --ttt-steps"
        )


def run(problem: Problem, keep: bool, threads: bool, timeout: float) -> list[Share]:
    from ..lab.usp_run import run_on_a_rank
    from ..parallel import launch, logical

    degrees = {"ring": problem.layout.ring, "ulysses": problem.layout.ulysses, "timeout_seconds": timeout}
    return (logical if threads else launch).run(run_on_a_rank, problem, keep, True, **degrees)


def describe(problem: Problem, shares: list[Share], tolerance: float | None) -> dict[str, object]:
    """The JSON document. Without a tolerance nothing was compared but the bytes."""
    from ..lab.usp_run import errors

    shape = problem.shape
    sent = {share.sent for share in shares}
    found = errors(problem, shares) if tolerance is not None else None
    as_predicted = sent == {(shape.forward, shape.backward)}
    close = found is None or all(error <= tolerance for error in found.values())
    return {
        "world": len(shares),
        "ring": problem.layout.ring,
        "ulysses": problem.layout.ulysses,
        "layout": problem.layout.kind,
        "padded_seq": problem.layout.padded,
        "max_abs_error": found and {name: finite(error) for name, error in found.items()},
        "tolerance": tolerance,
        "bytes_sent_per_rank": {
            "forward": max(forward for forward, _ in sent),
            "backward": max(backward for _, backward in sent),
            "predicted_forward": shape.forward,
            "predicted_backward": shape.backward,
        },
        "peak_bytes_per_rank": max(share.peak for share in shares),
        "seconds": {
            "forward": max(share.seconds[0] for share in shares),
            "backward": max(share.seconds[1] for share in shares),
        },
        "passed": close and as_predicted,
    }


def finite(error: float) -> float | None:
    """JSON has no infinity."""
    return error if math.isfinite(error) else None


def in_words(report: dict[str, object]) -> str:
    sent = report["bytes_sent_per_rank"]
    ranks = "1 rank" if report["world"] == 1 else f"{report['world']} ranks"
    lines = [
        f"{ranks}, ring {report['ring']} x ulysses {report['ulysses']}, {report['layout']}",
        f"sent per rank   forward {sent['forward']:,} bytes (formula {sent['predicted_forward']:,}), "
        f"backward {sent['backward']:,} (formula {sent['predicted_backward']:,})",
        f"peak per rank   {report['peak_bytes_per_rank']:,} bytes above the inputs",
    ]
    if report["max_abs_error"] is not None:
        parts = "  ".join(f"{name} {error:.1e}" for name, error in report["max_abs_error"].items() if error is not None)
        lines.append(f"largest error against dense float64 attention   {parts}   (allowed {report['tolerance']:.0e})")
    lines.append("passed" if report["passed"] else "NOT PASSED")
    return "\n".join(lines)
