"""Claims E1 to E6, judged in notebook 07 by `labsim.lab.drift_claims`; here its words find their way to the page."""

from __future__ import annotations

from .findings import Finding, Values, Verdict, rule
from .table import Claim

# The words of `drift_claims`, which imports torch and scipy.
WORDS = {"reproduced": Verdict.REPRODUCED, "the trend only": Verdict.TREND, "not reproduced": Verdict.NOT}
_BASIS = "drafts on nano that come with the course, three seeds"


def _from_notebook(claim: Claim, v: Values) -> Finding:
    found, verdict, why = (v[f"07.{part}_{claim.id}"] for part in ("found", "verdict", "why"))
    return Finding(found, WORDS[verdict], why)


for _id in ("E1", "E2", "E3", "E4", "E5", "E6"):
    rule(_id, _BASIS, *(f"07.{part}_{_id}" for part in ("found", "verdict", "why")))(_from_notebook)
