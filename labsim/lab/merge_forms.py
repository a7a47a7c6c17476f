"""One merge, five ways to write it: the forms that public code has had, side by side with `labsim.attention.lse`.

All compute the same thing on paper. They differ in what they do with an empty side (log-sum-exp -inf), with large
numbers, and with few bits:

    guarded     this package: the larger log-sum-exp taken out, two empty sides answered first
    logaddexp   the textbook: l' = logaddexp(l, l_b), both outputs weighed by exp(l - l')
    sigmoid     one transcendental less (ring-flash-attention, torch's context parallel, picotron)
    log1p       max + log1p(exp(min - max)) (TransformerEngine)
    bare exp    l + log(1 + exp(l_b - l)), as early ring attentions had it

Shapes: ... any leading dimensions, D head dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from ..attention.lse import merge

Part = tuple[torch.Tensor, torch.Tensor]
Form = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], Part]


def by_logaddexp(out: torch.Tensor, lse: torch.Tensor, out_b: torch.Tensor, lse_b: torch.Tensor) -> Part:
    return weighed(out, lse, out_b, lse_b, torch.logaddexp(lse, lse_b))


def by_sigmoid(out: torch.Tensor, lse: torch.Tensor, out_b: torch.Tensor, lse_b: torch.Tensor) -> Part:
    share_b = torch.sigmoid(lse_b - lse)[..., None]
    return out - share_b * (out - out_b), lse - torch.nn.functional.logsigmoid(lse - lse_b)


def by_log1p(out: torch.Tensor, lse: torch.Tensor, out_b: torch.Tensor, lse_b: torch.Tensor) -> Part:
    top, low = torch.maximum(lse, lse_b), torch.minimum(lse, lse_b)
    return weighed(out, lse, out_b, lse_b, top + torch.log1p(torch.exp(low - top)))


def by_bare_exp(out: torch.Tensor, lse: torch.Tensor, out_b: torch.Tensor, lse_b: torch.Tensor) -> Part:
    return weighed(out, lse, out_b, lse_b, lse + torch.log(1 + torch.exp(lse_b - lse)))


def weighed(
    out: torch.Tensor, lse: torch.Tensor, out_b: torch.Tensor, lse_b: torch.Tensor, total: torch.Tensor
) -> Part:
    """Both outputs by their share of exp(total)."""
    return out * torch.exp(lse - total)[..., None] + out_b * torch.exp(lse_b - total)[..., None], total


FORMS: dict[str, Form] = {
    "guarded": merge,
    "logaddexp": by_logaddexp,
    "sigmoid": by_sigmoid,
    "log1p": by_log1p,
    "bare exp": by_bare_exp,
}


@dataclass(frozen=True)
class Precision:
    """Which number of a merge is kept in which precision; `sums` is that of everything not named."""

    sums: torch.dtype = torch.float32
    outputs: torch.dtype | None = None
    accumulator: torch.dtype | None = None
    lse: torch.dtype | None = None


PRECISIONS = {
    "float64": Precision(torch.float64),
    "float32": Precision(),
    "float16 outputs": Precision(outputs=torch.float16),
    "bfloat16 outputs": Precision(outputs=torch.bfloat16),
    "bfloat16 accumulator": Precision(accumulator=torch.bfloat16),
    "bfloat16 LSE": Precision(lse=torch.bfloat16),
}


def accumulated(parts: Iterable[Part], form: Form = merge, precision: Precision = PRECISIONS["float64"]) -> list[Part]:
    """(out, lse) after each part, merged one after the other in that form, every number rounded to its precision."""
    found: list[Part] = []
    for out_b, lse_b in parts:
        out_b = rounded(out_b, precision.outputs, precision.sums)
        lse_b = rounded(lse_b, precision.lse, precision.sums)
        out, lse = form(*found[-1], out_b, lse_b) if found else (out_b, lse_b)
        found.append((rounded(out, precision.accumulator, precision.sums), rounded(lse, precision.lse, precision.sums)))
    return found


def rounded(x: torch.Tensor, kept: torch.dtype | None, sums: torch.dtype) -> torch.Tensor:
    """Through the precision that it is kept in, back to that of the sums."""
    return x.to(kept or sums).to(sums)


CORNERS = {
    "(0, 100)": (0.0, 100.0),
    "(0, -inf)": (0.0, float("-inf")),
    "(-inf, 0)": (float("-inf"), 0.0),
    "(-inf, -inf)": (float("-inf"), float("-inf")),
}


def corner(form: Form, lse_a: float, lse_b: float) -> str:
    """What a form makes of outputs 1 and 3 with these log-sum-exps, in float32: "right", or what is wrong.

    An empty side has the output 0.
    """
    empty = float("-inf")
    outs = [torch.tensor([0.0 if lse == empty else value]) for value, lse in ((1.0, lse_a), (3.0, lse_b))]
    lses = [torch.tensor(lse) for lse in (lse_a, lse_b)]
    wide = [x.double() for x in (*outs, *lses)]
    total = torch.logaddexp(wide[2], wide[3])
    weights = [torch.zeros(()) if lse == empty else torch.exp(lse - total) for lse in wide[2:]]
    exact = float(outs[0] * weights[0] + outs[1] * weights[1]), float(total)
    out, lse = form(outs[0], lses[0], outs[1], lses[1])
    wrong = [
        f"{name} {value:g}"
        for name, value, right in (("out", float(out), exact[0]), ("LSE", float(lse), exact[1]))
        if value != right and not abs(value - right) <= 1e-5 * abs(right)
    ]
    return ", ".join(wrong).replace("nan", "NaN") or "right"
