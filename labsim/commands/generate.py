"""`labsim generate`: answer prompts with a real model, with or without a draft, and count what happened."""

from __future__ import annotations

from dataclasses import asdict
from itertools import zip_longest
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import SEED, GivenPath, NumberList, Tokens, given, print_json, wrong_values_exit_2

if TYPE_CHECKING:
    from ..decode.compare import Comparison
    from ..decode.result import GenerationResult
    from ..drafts.shape import Shape
    from ..models.load import Target
    from ..train.prompts import Prompt


@click.command("generate")
@click.option(
    "--target",
    "target_name",
    default="nano",
    show_default=True,
    help="nano, smollm2, a directory or a Hugging Face id.",
)
@click.option(
    "--draft",
    default="none",
    show_default=True,
    help="none, ngram, small, or the directory of a trained draft (small, eagle1, eagle3, eagle3.1, mtp, heads).",
)
@click.option("--prompt", help="One user turn, through the target's chat template.")
@click.option(
    "--prompts",
    "prompts_file",
    type=GivenPath(exists=True, dir_okay=False, path_type=Path),
    help='A prompt set (.jsonl, as in data/prompts; a line may also be {"prompt": TEXT} or a JSON string), or a text '
    "file of one prompt per line.",
)
@click.option("--raw", is_flag=True, help="Take the prompt as plain text, without the chat template.")
@click.option("--k", type=int, default=4, show_default=True, help="Drafted tokens per step, in a chain.")
@click.option("--tree", type=NumberList(int), help="A static tree instead: children per node by depth, such as 4,2,1.")
@click.option(
    "--dynamic-tree",
    type=NumberList(int),
    help="A tree grown where the draft is confident: depth,top-k,nodes, such as 5,4,16.",
)
@click.option("--max-new-tokens", type=Tokens(), default=200, show_default=True)
@click.option("--temperature", type=float, default=0.0, show_default=True, help="0 is greedy.")
@click.option("--top-k", type=int, default=0, help="Sample among the k likeliest tokens; 0 is all.")
@click.option("--top-p", type=float, default=1.0, help="Sample among the likeliest tokens with this much mass.")
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option("--compare", "with_baseline", is_flag=True, help="Run plain decoding too, interleaved, and compare.")
@click.option("--repeats", type=click.IntRange(1), default=1, show_default=True, help="With --compare: runs of each.")
@click.option("--ignore-stop", is_flag=True, help="Go on to --max-new-tokens past the end of the answer.")
@click.option("--device", help="cpu or cuda; the GPU if there is one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    target_name: str,
    draft: str,
    prompt: str | None,
    prompts_file: Path | None,
    raw: bool,
    k: int,
    tree: tuple[int, ...] | None,
    dynamic_tree: tuple[int, ...] | None,
    max_new_tokens: int,
    temperature: float,
    top_k: int,
    top_p: float,
    seed: int,
    with_baseline: bool,
    repeats: int,
    ignore_stop: bool,
    device: str | None,
    as_json: bool,
) -> None:
    """Decode a real model losslessly, with a draft or without.

    \b
    labsim generate --prompt "What is a mutex?"                                the target alone
    labsim generate --target smollm2 --draft ngram --compare --prompt "..."    with a draft, beside plain decoding
    labsim generate --draft small --tree 4,2,1 --prompts FILE --json           a draft tree, for every prompt in a file
    """
    from ..models.smollm2 import TargetUnavailable
    from ..train.prompts import read_prompts

    with wrong_values_exit_2():
        if (prompt is None) == (prompts_file is None):
            raise click.UsageError("give either --prompt TEXT or --prompts FILE")
        if prompt is not None and not prompt.strip() and not raw:
            raise click.UsageError("--prompt: the prompt is empty; right is a question, such as 'What is a mutex?'")
        shape = read_shape(k, tree, dynamic_tree)
        refuse_ignored(draft, with_baseline)
        refuse_filters_of_greedy(temperature, top_k, top_p)
        prompts = one_prompt(prompt) if prompts_file is None else read_prompts(prompts_file, named=False)
        talk = next((one for one in prompts if one.text is None), None)
        if raw and talk is not None:
            raise click.UsageError(f"--raw takes plain text, and {prompts_file}:{talk.line} holds a conversation")
        try:
            reports = run(
                target_name,
                draft,
                prompts,
                prompts_file,
                raw=raw,
                shape=shape,
                max_new_tokens=max_new_tokens,
                sampling=(temperature, top_k, top_p),
                seed=seed,
                repeats=repeats if with_baseline else 0,
                ignore_stop=ignore_stop,
                device=device,
                show=not as_json,
            )
        except TargetUnavailable as error:
            raise click.ClickException(str(error)) from error
    if as_json:
        print_json(reports[0] if prompts_file is None else summary(reports))
    elif len(reports) > 1:
        click.echo(describe_summary(summary(reports)))


def read_shape(k: int, tree: tuple[int, ...] | None, dynamic_tree: tuple[int, ...] | None) -> Shape:
    """The draft's shape from the three options."""
    from ..drafts.shape import Chain, DynamicTree, StaticTree

    if tree and dynamic_tree:
        raise click.UsageError("give either --tree or --dynamic-tree")
    if tree:
        return StaticTree(tree)
    if dynamic_tree:
        if len(dynamic_tree) != 3:
            raise click.UsageError(f"--dynamic-tree takes depth,top-k,nodes, such as 5,4,16, not {dynamic_tree}")
        return DynamicTree(*dynamic_tree)
    return Chain(k)


def refuse_ignored(draft: str, with_baseline: bool) -> None:
    """UsageError for options on the command line that would change nothing."""
    if draft == "none" and (ignored := given("k", "tree", "dynamic_tree")):
        raise click.UsageError(f"{ignored[0]} shapes a draft, and --draft is none: name one, such as --draft ngram")
    if given("k") and (ignored := given("tree", "dynamic_tree")):
        raise click.UsageError(f"--k is the length of a chain, and {ignored[0]} is given: give one of them")
    if given("repeats") and not with_baseline:
        raise click.UsageError("--repeats belongs to --compare: give both or neither")


def refuse_filters_of_greedy(temperature: float, top_k: int, top_p: float) -> None:
    """UsageError for sampling filters beside greedy decoding, which takes the likeliest token whatever they say."""
    for option, value, on in (("--top-k", top_k, top_k > 0), ("--top-p", top_p, 0 < top_p < 1)):
        if temperature == 0 and on:
            raise click.UsageError(
                f"{option} is {value}, and --temperature 0 is greedy, which it cannot change: "
                "give a temperature above 0, such as --temperature 0.8"
            )


def one_prompt(text: str) -> list[Prompt]:
    """The prompt of `--prompt`."""
    from ..train.prompts import plain

    return [plain(text, "")]


def run(
    target_name: str,
    draft: str,
    prompts: list[Prompt],
    prompts_file: Path | None,
    *,
    raw: bool,
    shape: Shape,
    max_new_tokens: int,
    sampling: tuple[float, int, float],
    seed: int,
    repeats: int,
    ignore_stop: bool,
    device: str | None,
    show: bool,
) -> list[dict[str, object]]:
    """One report per prompt; `repeats` 0 runs no baseline. Shown as they finish when `show`.

    All prompts are encoded before the first is answered: what is wrong with one of them is said at once.
    """
    from ..decode.compare import Comparison, compare
    from ..decode.generate import generate
    from ..drafts.load import load_drafter
    from ..models.load import load_target
    from ..models.sampling import Sampling

    chosen = Sampling(*sampling)
    target = load_target(target_name, device=device)
    drafter = load_drafter(draft, target)
    reports = []
    encoded = []
    for one in prompts:
        where = f"{prompts_file}:{one.line}" if prompts_file else "--prompt"
        encoded.append(target.encode_prompt(one.text if raw else one.messages, where, raw=raw))
    for index, (one, ids) in enumerate(zip(prompts, encoded, strict=True)):
        options = {
            "drafter": drafter,
            "shape": shape,
            "max_new_tokens": max_new_tokens,
            "sampling": chosen,
            "seed": seed + index,
            "stop_ids": frozenset() if ignore_stop else None,
        }
        if repeats:
            comparison = compare(target, ids, repeats=repeats, **options)
        else:
            comparison = Comparison((), (generate(target, ids, **options),), None)
        place = ({"id": one.id} if one.id else {}) | ({"line": one.line} if prompts_file else {})
        reports.append(place | report(target, comparison, greedy=chosen.greedy))
        if show:
            click.echo(describe(reports[-1]))
    return reports


def report(target: Target, comparison: Comparison, *, greedy: bool) -> dict[str, object]:
    """The JSON document for one prompt."""
    from ..decode.loops import find_loop

    result: GenerationResult = comparison.speculative[0]
    loop = find_loop(result.tokens)
    document: dict[str, object] = {
        "text": target.decode(result.tokens),
        "tokens": list(result.tokens),
        "finish_reason": result.finish_reason,
        "loop": asdict(loop) if loop else None,
        "prompt_tokens": len(result.prompt_tokens),
        "acceptance_length": result.acceptance_length,
        "alpha": result.draft_acceptance_rate,
        "alpha_kind": "accepted/drafted",
        "survival": list(result.survival),
        "histogram": list(result.histogram),
        "drafted": result.drafted,
        "accepted": result.accepted,
        "target_forwards": result.target_forwards,
        "tokens_per_second": best_rate(comparison.speculative),
        "seconds": {
            "prefill": result.seconds.prefill,
            "propose": result.seconds.propose,
            "verify": result.seconds.verify,
            "accept": result.seconds.accept,
        },
        "weight_bandwidth_bytes_per_second": result.weight_bandwidth,
    }
    if comparison.plain:
        document["baseline"] = {
            "tokens_per_second": best_rate(comparison.plain),
            "tokens": list(comparison.plain[0].tokens),
            "target_forwards": comparison.plain[0].target_forwards,
        }
        document["speedup"] = comparison.speedup
        document["identical"] = comparison.identical if greedy else None
        if not greedy:
            document["identical_note"] = "sampled answers agree in distribution, not token by token"
        if comparison.difference is not None:
            difference = comparison.difference
            document["difference"] = {
                "position": difference.position,
                "baseline_token": difference.plain,
                "token": difference.speculative,
                "logit_gap": difference.gap,
                "near_tie": difference.near_tie,
            }
    return document


def best_rate(results: tuple[GenerationResult, ...]) -> float:
    """Tokens per second of the median repeat."""
    rates = sorted(result.tokens_per_second for result in results)
    return rates[len(rates) // 2]


def summary(reports: list[dict[str, object]]) -> dict[str, object]:
    """All prompts together: counts summed over steps, so that long answers weigh more, as an engine's counters do."""
    histogram = [sum(counts) for counts in zip_longest(*(one["histogram"] for one in reports), fillvalue=0)]
    steps = sum(histogram)
    accepted, drafted = (sum(one[key] for one in reports) for key in ("accepted", "drafted"))
    seconds = sum(sum(one["seconds"].values()) - one["seconds"]["prefill"] for one in reports)
    later = sum(len(one["tokens"]) - 1 for one in reports)  # the first token of each comes from its prefill
    document: dict[str, object] = {
        "prompts": len(reports),
        "acceptance_length": 1 + accepted / steps if steps else 1.0,
        "alpha": accepted / drafted if drafted else 0.0,
        "alpha_kind": "accepted/drafted",
        "survival": [sum(histogram[depth:]) / steps for depth in range(1, len(histogram))] if steps else [],
        "histogram": histogram,
        "target_forwards": sum(one["target_forwards"] for one in reports),
        "tokens_per_second": later / seconds if later else nan,
        "tokens": sum(len(one["tokens"]) for one in reports),
        "results": reports,
    }
    if all("baseline" in one for one in reports):
        speedups = sorted(one["speedup"] for one in reports if not isnan(one["speedup"]))
        document["speedup"] = speedups[len(speedups) // 2] if speedups else nan
        known = [one["identical"] for one in reports]
        document["identical"] = None if None in known else all(known)
    return document


def describe(one: dict[str, object]) -> str:
    """One answer and its counts, in words."""
    lines = [
        str(one["text"]).rstrip(),
        f"--- {len(one['tokens'])} tokens in {one['target_forwards']} target forwards ({one['finish_reason']}), "
        + rate(one["tokens_per_second"]),
    ]
    if one["drafted"]:
        survival = " ".join(f"{share:.2f}" for share in one["survival"])
        lines.append(
            f"    {one['acceptance_length']:.2f} tokens per verify step; {one['accepted']} of {one['drafted']} drafted "
            f"tokens accepted ({one['alpha']:.0%}); survival by depth {survival}"
        )
    if "baseline" in one:
        times = "" if isnan(one["speedup"]) else f": {one['speedup']:.2f}x"
        lines.append(f"    plain decoding {rate(one['baseline']['tokens_per_second'])}{times}")
        if one["identical"] is None:
            lines.append(f"    {one['identical_note']}")
        elif one["identical"]:
            lines.append("    token for token the same answer")
        else:
            gap = one["difference"]
            lines.append(
                f"    the answers part at token {gap['position']}, where two logits are {gap['logit_gap']:.2g} apart"
            )
    if loop := one["loop"]:
        about = "acceptance and speedup are" if one["drafted"] else "its speed is"
        stretch = f"{loop['period']} tokens {loop['times']} times in a row"
        lines.append(f"    ! the answer repeats itself: {stretch}; {about} of a loop")
    return "\n".join(lines)


def rate(tokens_per_second: float) -> str:
    """Decode speed in words; an answer of one token comes out of the prefill and has none."""
    return "no decode step to time" if isnan(tokens_per_second) else f"{tokens_per_second:.1f} tokens/s"


def describe_summary(document: dict[str, object]) -> str:
    """All prompts in one line."""
    line = (
        f"=== {document['prompts']} prompts, {document['tokens']} tokens in {document['target_forwards']} target "
        f"forwards; {document['acceptance_length']:.2f} tokens per verify step"
    )
    timed = "speedup" in document and not isnan(document["speedup"])
    return line + (f"; {document['speedup']:.2f}x plain (median)" if timed else "")
