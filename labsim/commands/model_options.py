"""Options that describe GPU, target, draft and load, shared by `breakeven` and `simulate`."""

from __future__ import annotations

from collections.abc import Callable

import click

from .options import NumberList

Command = Callable[..., object]


def cost_options(command: Command) -> Command:
    """--gpu --model --draft --k --concurrency --tensor-parallel --dtype --engine --json."""
    options = (
        click.option("--gpu", required=True, help="a100, h100, h200, b200, gb200, ..."),
        click.option("--model", required=True, help="llama-3.1-8b, llama-3.3-70b, qwen3-30b-a3b, kimi-k2, ..."),
        click.option("--draft", default="eagle3", show_default=True, help="eagle3, ngram, heads, or a model's name."),
        click.option("--k", type=int, required=True, help="Drafted tokens per step (num_speculative_tokens)."),
        click.option(
            "--concurrency",
            type=NumberList(int),
            default="1,8,32,128",
            show_default=True,
            help="Requests decoding together, comma-separated.",
        ),
        click.option("--tensor-parallel", type=int, help="GPUs per replica. Default: as few as hold the weights."),
        click.option("--dtype", help="Weights: bf16, fp8, fp4, ... Default: as published for the model."),
        click.option("--engine", help="vllm, sglang or trtllm: whose measured overheads to use."),
        click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout."),
    )
    for option in reversed(options):
        command = option(command)
    return command
