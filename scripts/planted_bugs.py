"""The bugs that `scripts/break_it.py` plants: at least one per layer, each an exact replacement in one file.

A bug is one that somebody could make: a sign, a row, a step left out, a check switched off. `tests` are the few that
must fail; they pass without the bug.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """One bug: `right` stands in `file` exactly once and becomes `wrong`."""

    name: str
    layer: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


BUGS = (
    Bug(
        "bonus forgotten by the closed form",
        "sim",
        "labsim/sim/acceptance.py",
        "    return 1.0 + sum(check_survival(survival))",
        "    return sum(check_survival(survival))",
        ("tests/sim/test_acceptance.py",),
    ),
    Bug(
        "time stamps taken for counts",
        "telemetry",
        "labsim/telemetry/metrics_page.py",
        'if name.endswith("_created"):',
        'if name.endswith("_made"):',
        ("tests/telemetry/test_metrics_page.py",),
    ),
    Bug(
        "gate on the estimate",
        "rollout",
        "labsim/rollout/gate.py",
        "    lower = evidence.alpha_lower\n",
        "    lower = evidence.alpha\n",
        ("tests/rollout/test_gate.py",),
    ),
    Bug(
        "merge with exchanged weights",
        "attention",
        "labsim/attention/lse.py",
        "out_a_BHSD * weight_a[..., None] + out_b_BHSD * weight_b[..., None]",
        "out_a_BHSD * weight_b[..., None] + out_b_BHSD * weight_a[..., None]",
        ("tests/attention/test_kernels.py::test_two_blocks_merge_to_the_whole_with_gradients",),
    ),
    Bug(
        "gradients one hop short of home",
        "ring",
        "labsim/attention/ring.py",
        "            if self.group.size > 1:\n                following",
        "            if self.group.size > 1 and hop + 1 < self.group.size:\n                following",
        ("tests/attention/test_usp.py::test_every_depth_on_a_mesh_of_four",),
    ),
    Bug(
        "bonus token dropped",
        "decode",
        "labsim/decode/accept.py",
        'return Accepted(tuple(path), choices[1 + at], "corrected" if children[at] else "bonus")',
        'return Accepted(tuple(path), choices[1 + at] if children[at] else path[-1], "corrected")',
        ("tests/decode/test_accept.py::test_greedy_follows_the_argmax_through_a_tree",),
    ),
    Bug(
        "rejection redrawn from p",
        "decode",
        "labsim/decode/accept.py",
        "        left_V = (p_V - q_V).clamp_(min=0)",
        "        left_V = p_V.clone()",
        ("tests/decode/test_accept.py::test_the_first_token_has_the_targets_distribution",),
    ),
    Bug(
        "state fed back before the norm",
        "drafts",
        "labsim/drafts/eagle.py",
        "return output_BLH, output_BLH if self.config.norm_output else raw_BLH",
        "return output_BLH, raw_BLH",
        ("tests/drafts/test_eagle.py::test_norm_output_changes_depth_2_and_not_depth_1",),
    ),
    Bug(
        "d2t written as absolute ids",
        "checkpoint",
        "labsim/drafts/vocabulary.py",
        "        return self.ids_N - torch.arange(len(self.ids_N))",
        "        return self.ids_N.clone()",
        ("tests/drafts/test_vocabulary.py::test_the_most_frequent_tokens_in_order_of_their_ids",),
    ),
    Bug(
        "first guess of an answer never trained",
        "trainer",
        "labsim/train/ttt/data.py",
        "torch.cat([place + 1 >= document.answer_start for",
        "torch.cat([place >= document.answer_start for",
        ("tests/train/test_ttt_data.py::test_places_are_those_of_the_definition",),
    ),
    Bug(
        "loss weighed over all places",
        "trainer",
        "labsim/train/ttt/loss.py",
        "    weight_P = weighed_P.to(entropies_P) / over_ranks(weighed_P.sum()).clamp(min=1)",
        "    weight_P = torch.ones_like(entropies_P) / len(entropies_P)",
        ("tests/train/test_ttt_loss.py::test_a_packed_row_is_its_documents",),
    ),
    Bug(
        "stale golden",
        "notebooks",
        "tests/golden/01.json",
        '"value": 2.9303999',
        '"value": 2.9503999',
        ("tests/notebooks/test_execute.py::test_notebook[01_alpha_and_k-solved]",),
    ),
    Bug(
        "false number in a sentence",
        "notebooks",
        "notebooks/02_concurrency_and_tails.ipynb",
        "0.10, 0.17, 0.30 and 0.39",
        "0.10, 0.17, 0.35 and 0.39",
        ("tests/lab/test_prose.py::test_every_number_of_the_course_is_backed[02_concurrency_and_tails]",),
    ),
    Bug(
        "claims page edited by hand",
        "claims",
        "docs/claims.md",
        "≈ **trend only**: it climbs",
        "✓ **reproduced**: it climbs",
        ("tests/lab/test_claims_page.py::test_the_page_says_what_the_metrics_say",),
    ),
    Bug(
        "dead slider",
        "widgets",
        "labsim/lab/explorer.js",
        '      input.addEventListener("input", () => {',
        '      input.addEventListener("inputs", () => {',
        ("tests/browser/test_exported_page.py::test_two_widgets_on_a_page_do_not_move_each_other",),
    ),
    Bug(
        "addresses of other hosts not seen in styles",
        "slides",
        "labsim/lab/slides/static.py",
        '    for tag in soup.find_all("style"):',
        '    for tag in soup.find_all("styles"):',
        ("tests/slides/test_deck.py::test_an_address_on_another_host_is_found",),
    ),
    Bug(
        "leaked process not looked for",
        "runner",
        "labsim/lab/watch.py",
        "        leftovers = processes.others(grace_s=ORPHAN_GRACE_S)",
        "        leftovers = []",
        ("tests/lab/test_runner_failures.py::test_an_orphan_fails_the_run",),
    ),
    Bug(
        "solutions not judged",
        "runner",
        "labsim/lab/runner.py",
        "    if unsolved:\n",
        "    if False:\n",
        ("tests/lab/test_runner.py::test_a_solution_that_does_not_pass_fails_the_run",),
    ),
    Bug(
        "network let through",
        "tests",
        "tests/offline/no_network.py",
        "    if not stays_here(host):",
        "    if host is NotImplemented:",
        ("tests/lab/test_no_network.py::test_a_child_of_a_child",),
    ),
)
