"""`labsim data generate`: answers of a target to a file of prompts, for training drafts."""

from __future__ import annotations

from pathlib import Path

import click

from .options import (
    SEED,
    GivenPath,
    TokenRange,
    make_writable,
    print_json,
    progress_bar,
    writing_to,
    wrong_values_exit_2,
)

LOG_SECONDS = 30


@click.group("data")
def command() -> None:
    """Training data for drafts."""


@command.command("prompts")
@click.option("--out", type=GivenPath(dir_okay=False, path_type=Path), required=True, help="JSONL file to write.")
@click.option("--chat", type=click.IntRange(min=0), default=0)
@click.option("--code", type=click.IntRange(min=0), default=0)
@click.option("--agent", type=click.IntRange(min=0), default=0)
@click.option("--document", type=click.IntRange(min=0), default=0)
@click.option("--seed", type=SEED, default=0, show_default=True)
def prompts(out: Path, seed: int, **counts: int) -> None:
    """Prompts in the words of nano's own corpus, from its training side: as many of each domain as you like.

    \b
    labsim data prompts --chat 6000 --code 3000 --agent 2500 --document 1500 --seed 29 --out build/more.jsonl
    labsim data generate --target nano --prompts build/more.jsonl --max-new-tokens 160 --batch-size 64 --out build/more
    """
    import json

    from ..models.files import write_atomically
    from ..train.nano.corpus import training_prompts

    if not any(counts.values()):
        raise click.UsageError("no prompts asked for; right is a number with --chat, --code, --agent or --document")
    lines = [
        json.dumps({"id": f"{domain}-{seed}-{number}", "domain": domain, "messages": messages}, ensure_ascii=False)
        for domain, count in counts.items()
        for number, messages in enumerate(training_prompts(domain, count, seed))
    ]
    make_writable(out.parent)
    with wrong_values_exit_2():
        write_atomically(out, ("\n".join(lines) + "\n").encode())
    click.echo(f"{len(lines)} prompts in {out}")


@command.command("generate")
@click.option("--target", "target_name", required=True, help="nano, smollm2, a directory or a Hugging Face id.")
@click.option(
    "--prompts",
    "prompt_files",
    type=GivenPath(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    required=True,
    help="JSONL of prompts; may be given several times.",
)
@click.option("--out", type=GivenPath(file_okay=False, path_type=Path), required=True, help="Directory of answers.")
@click.option("--max-new-tokens", type=TokenRange(min=1), default=200, show_default=True)
@click.option("--temperature", type=float, default=0.0, show_default=True, help="0 is greedy.")
@click.option("--samples", type=click.IntRange(min=1), default=1, show_default=True, help="Answers per prompt.")
@click.option(
    "--top-logprobs",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Keep that many likeliest tokens at each place: better labels for `train-small`.",
)
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option(
    "--dtype",
    type=click.Choice(["fp32", "bf16"]),
    help="What the target computes in. [default: fp32 on a CPU, bf16 on a GPU] A CPU with AMX is faster in bf16.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def generate(
    target_name: str,
    prompt_files: tuple[Path, ...],
    out: Path,
    max_new_tokens: int,
    temperature: float,
    samples: int,
    top_logprobs: int,
    batch_size: int,
    seed: int,
    dtype: str | None,
    as_json: bool,
) -> None:
    """Let the target answer prompts. Stop it at any time, even with kill -9: the same command goes on where it was.

    One directory may collect several prompt files, in one call or in several, as long as settings and target stay the
    same. What is already there is kept; only another conversation under an id that is there is refused.

    \b
    labsim data generate --target nano --prompts data/prompts/train.jsonl --out build/nano-answers
    labsim data generate --target smollm2 --prompts data/prompts/train.jsonl --out build/sampled --temperature 0.8
    """
    from ..models.sampling import Sampling
    from ..models.smollm2 import TargetUnavailable

    with wrong_values_exit_2():
        Sampling(temperature=temperature)
    if samples > 1 and temperature == 0:
        raise click.UsageError(f"--samples {samples} at --temperature 0 gives the same answer {samples} times")
    try:
        with writing_to(out), wrong_values_exit_2():
            sampling = {"temperature": temperature, "samples": samples, "seed": seed}
            report = run(target_name, prompt_files, out, max_new_tokens, top_logprobs, batch_size, dtype, **sampling)
    except TargetUnavailable as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json(report)
    else:
        click.echo(
            f"{report['answers']} answers, {report['answer_tokens']} tokens in {out}; "
            f"{report['stopped']} ended by themselves. This run: {report['new_tokens']} tokens"
            + (f", {report['tokens_per_second']:.0f} per second" if report["tokens_per_second"] else "")
        )


def run(
    target_name: str,
    prompt_files: tuple[Path, ...],
    out: Path,
    max_new_tokens: int,
    top_logprobs: int,
    batch_size: int,
    dtype: str | None,
    *,
    temperature: float,
    samples: int,
    seed: int,
) -> dict[str, object]:
    """Generate what is still missing; the JSON document of the command."""
    import time
    from collections import Counter

    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    from ..features.store import fingerprint
    from ..models.load import load_target
    from ..models.weights import DTYPES
    from ..train.answer_store import Answer, AnswerSettings, AnswerStore, answer_tokens, read_answers
    from ..train.answers import Question, fill_store, generate_answers
    from ..train.places import check_apart
    from ..train.prompts import read_prompts

    prompts = {path: read_prompts(path) for path in prompt_files}
    ids_of = Counter(prompt.id for path in prompt_files for prompt in prompts[path])
    twice = [name for name, times in ids_of.items() if times > 1]
    if twice:
        raise ValueError(
            f"two prompts are called {twice[0]!r}; answers are kept by id, so ids must differ between files"
        )
    target = load_target(target_name, dtype=DTYPES[dtype] if dtype else None)
    check_apart({"--out": out}, {"--target": target.directory})
    config = target.model.config
    if top_logprobs > config.vocab_size:
        raise ValueError(
            f"--top-logprobs is {top_logprobs}; right is 0 to {config.vocab_size}, the vocabulary of {target_name}"
        )
    asked = [
        (prompt, tuple(target.encode_prompt(prompt.messages, f"{path}:{prompt.line}")))
        for path, some in prompts.items()
        for prompt in some
    ]
    weights = fingerprint(target.directory)
    settings = AnswerSettings(
        target_name, config.vocab_size, max_new_tokens, temperature, seed, top_logprobs, weights,
        next(name for name, dtype in DTYPES.items() if dtype == target.model.dtype),
    )  # fmt: skip
    store = AnswerStore(out, settings)
    finished = {answer.key: answer for answer in read_answers(out)}
    questions, count = [], 0
    for prompt, ids in asked:
        for sample in range(samples):
            count += 1
            before = finished.get((prompt.id, sample))
            if before is None:
                questions.append(Question(prompt.id, sample, prompt.domain, ids))
            elif before.prompt_ids != ids:
                raise ValueError(f"{out} holds an answer to another prompt of the id {prompt.id}; give another --out")
    columns = (
        TextColumn("answers"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    start = said = time.monotonic()
    tokens = 0
    with progress_bar(*columns) as progress:
        bar = progress.add_task("", total=count, completed=count - len(questions), rate="")

        def done(answer: Answer) -> None:
            nonlocal said, tokens
            tokens += len(answer.answer_ids)
            now = time.monotonic()
            rate = f"{tokens / (now - start):.0f} tokens/s"
            progress.update(bar, advance=1, rate=rate)
            # A bar is not drawn into a log file: a line now and then is.
            if not progress.console.is_terminal and now - said > LOG_SECONDS:
                said = now
                progress.console.print(f"{progress.tasks[0].completed:.0f} of {count} answers, {rate}")

        answers = generate_answers(
            target.model,
            target.stop_ids,
            questions,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seed=seed,
            batch_size=batch_size,
            top_logprobs=top_logprobs,
        )
        fill_store(store, answers, done=done)
    seconds = time.monotonic() - start
    store.merge()
    everything = read_answers(out)
    return {
        "target": target_name,
        "out": str(out),
        "answers": len(everything),
        "answer_tokens": answer_tokens(everything),
        "stopped": sum(answer.finish == "stop" for answer in everything),
        "new_answers": len(questions),
        "new_tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds if tokens else None,
        "settings": vars(settings) | {"samples": samples},
    }


@command.command("text")
@click.argument("answers", type=GivenPath(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=GivenPath(dir_okay=False, path_type=Path), help="A JSONL file. Default: stdout.")
def text(answers: Path, out: Path | None) -> None:
    """Answers as text, one JSON object per line: prompt, sample, domain, finish, text.

    \b
    labsim data text data/answers/nano/greedy | head -3
    """
    import json

    from ..models.files import write_atomically
    from ..models.load import load_target
    from ..models.smollm2 import TargetUnavailable
    from ..train.answer_store import read_answers, read_settings

    with wrong_values_exit_2():
        try:
            target = load_target(read_settings(answers).target)
        except TargetUnavailable as error:
            raise click.ClickException(str(error)) from error
        found = sorted(read_answers(answers), key=lambda answer: answer.key)
    lines = [
        json.dumps(
            {
                "prompt": answer.prompt,
                "sample": answer.sample,
                "domain": answer.domain,
                "finish": answer.finish,
                "text": target.decode(answer.answer_ids),
            },
            ensure_ascii=False,
        )
        for answer in found
    ]
    if out is None:
        click.echo("\n".join(lines))
    else:
        with wrong_values_exit_2():
            write_atomically(out, ("\n".join(lines) + "\n").encode())
