"""`labsim eval`: a draft in real decoding, by data set and context length."""

from __future__ import annotations

import click

from .options import Number, NumberList, TokenRange, given, print_json, progress_bar, wrong_values_exit_2

LEGEND = """by depth: survival is P(at least so many accepted), conditional the share of those before that pass too;
hidden_norm is the size (root mean square) of the state handed on; shares of attention, 0 to 1, which overlap:
sink_mass on the sink token, recent_mass on the nearest tokens, self_mass on the draft's own branch; entropy in nats"""


@click.command("eval")
@click.option("--target", "target_name", required=True, help="nano, smollm2, a directory or a Hugging Face id.")
@click.option("--draft", required=True, help="ngram, a shipped kind (small, mtp, eagle3, eagle3.1), or a directory.")
@click.option(
    "--data", default="chat,code,agent", show_default=True, help="Domains of the held-out prompts, or JSONL files."
)
@click.option("--k", type=click.IntRange(1, 64), default=7, show_default=True, help="Drafted tokens per step.")
@click.option("--context", type=NumberList(int, tokens=True), help="Prompt lengths, 512,4K. Default: the prompts' own.")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Each draws its own prompts.")
@click.option("--prompts-per-seed", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--max-new-tokens", type=TokenRange(min=2), default=128, show_default=True)
@click.option("--temperature", type=float, default=0.0, show_default=True, help="0 is greedy.")
@click.option(
    "--template", default="own", show_default=True, help="Chat template: own, none, headers, llama3, ... or a file."
)
@click.option("--bos/--no-bos", default=True, help="Leave out the token that opens every text.")
@click.option("--system", help="Put this system message first; `unseen` takes one that no training had.")
@click.option("--noise", type=Number(min=0), default=0.0, help="On what the draft feeds itself, in its own size.")
@click.option("--noise-on", type=click.Choice(["state", "embedding"]), default="state", show_default=True)
@click.option("--device", help="cpu or cuda; the GPU if there is one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    target_name: str,
    draft: str,
    data: str,
    k: int,
    context: tuple[int, ...] | None,
    seeds: int,
    prompts_per_seed: int,
    max_new_tokens: int,
    temperature: float,
    template: str,
    bos: bool,
    system: str | None,
    noise: float,
    noise_on: str,
    device: str | None,
    as_json: bool,
) -> None:
    """Acceptance of --draft by depth, with intervals, and times per token.

    \b
    labsim eval --target nano --draft small --data chat,code --k 4
    labsim eval --target smollm2 --draft build/eagle3.1 --data chat --k 4 --seeds 3 --json
    labsim eval --target nano --draft eagle3.1 --data chat --template none --no-bos --noise 0.5
    """
    from dataclasses import asdict

    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    from ..drafts.load import load_drafter
    from ..models.load import load_target
    from ..models.sampling import Sampling
    from ..models.smollm2 import TargetUnavailable
    from ..train.evaluate import evaluate
    from ..train.probes.disturbed import Disturbance
    from ..train.probes.rendering import Rendering, template_called

    names = [name.strip() for name in data.split(",") if name.strip()]
    if not names:
        raise click.UsageError(f"--data is {data!r}; right is a domain such as chat, or a JSONL file of prompts")
    if given("noise_on") and not noise:
        raise click.UsageError("--noise-on says where the noise goes, and --noise is 0: give both or neither")
    contexts: tuple[int | None, ...] = context or (None,)
    columns = (TextColumn("answers"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with wrong_values_exit_2():
        sampling = Sampling(temperature=temperature)
        try:
            target = load_target(target_name, device=device)
        except TargetUnavailable as error:
            raise click.ClickException(str(error)) from error
        drafter = load_drafter(draft, target)
        if drafter is None:
            raise ValueError("--draft none drafts nothing; there is no acceptance to measure")
        rendering = Rendering(template=template_called(template, target), bos=bos, system=system_message(system))
        disturbance = Disturbance(**{f"{noise_on}_noise": noise}) if noise else None
        with progress_bar(*columns) as progress:
            bar = progress.add_task("", total=len(names) * len(contexts) * seeds * prompts_per_seed)
            rows = evaluate(
                target,
                drafter,
                names,
                k=k,
                contexts=contexts,
                seeds=seeds,
                prompts_per_seed=prompts_per_seed,
                max_new_tokens=max_new_tokens,
                sampling=sampling,
                rendering=rendering,
                disturbance=disturbance,
                done=lambda: progress.advance(bar),
            )
    if as_json:
        print_json({"target": target.name, "draft": draft, "k": k, "rows": [asdict(row) for row in rows]})
        return
    for row in rows:
        where = row.data if row.context is None else f"{row.data} at {row.context} tokens"
        click.echo(
            f"{where}: {row.acceptance_length:.2f} tokens per step ({row.interval[0]:.2f}-{row.interval[1]:.2f}), "
            f"{row.tpot_mean_ms:.1f} ms per token (P95 {row.tpot_p95_ms:.1f}), "
            f"{row.answers} answers to {row.prompts} prompts"
        )
        click.echo("  depth        " + "".join(f"{depth:>8}" for depth in range(1, k + 1)))
        for name in ("survival", "conditional", "hidden_norm", "sink_mass", "recent_mass", "self_mass", "entropy"):
            if values := getattr(row, name):
                click.echo(f"  {name:<13}" + "".join(f"{value:8.2f}" for value in values))
    if any(row.hidden_norm for row in rows):
        click.echo(LEGEND)


def system_message(name: str | None) -> str | None:
    """The text itself; the first of the course's unseen system messages for `unseen`."""
    from ..models.paths import data_directory
    from ..train.prompts import read_system_prompts

    if name != "unseen":
        return name
    return read_system_prompts(data_directory() / "prompts" / "system_prompts.json").unseen[0]
