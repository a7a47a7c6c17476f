"""Arms of the attention-drift comparison: EAGLE-3, each of EAGLE-3.1's two changes alone, and both.

    arm                     fc_norm   norm_output
    EAGLE-3                    -           -
    EAGLE-3 + fc_norm         yes          -
    EAGLE-3 + norm_output      -          yes
    EAGLE-3.1                 yes         yes

All four start from the same weights for a seed and read the same rows in the same order. They are unrolled for two
steps only, so that every depth from the third on is beyond what they were trained for. EAGLE-3 and EAGLE-3.1 are also
trained with five steps, so that growth with depth can be told from leaving the trained range.
"""

from __future__ import annotations

from .ttt_arms import Arm, Settings

TTT, LONG_TTT = 2, 5
PRE, FC_ONLY, OUTPUT_ONLY, POST = (
    Arm(kind, TTT) for kind in ("eagle3", "eagle3+fc_norm", "eagle3+norm_output", "eagle3.1")
)
DRIFT_ARMS = (PRE, FC_ONLY, OUTPUT_ONLY, POST)
LONG_PRE, LONG_POST = Arm("eagle3", LONG_TTT), Arm("eagle3.1", LONG_TTT)
LONG_ARMS = (LONG_PRE, LONG_POST)

NANO_DRIFT = Settings(
    {"agent": 200, "chat": 800, "code": 400},
    {"agent": 14, "chat": 24, "code": 24},
    max_new_tokens=64,
    longest=256,
    seq=384,
    steps=700,
)
