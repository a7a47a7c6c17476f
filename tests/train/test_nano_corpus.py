"""The corpus: two sides that never meet, tool calls that parse, renames that rename."""

from __future__ import annotations

import ast
import itertools
import json
import re

import pytest

from labsim.models.paths import data_directory
from labsim.train.nano.corpus import (
    DOMAINS,
    agent,
    answered,
    chat,
    code,
    documents,
    held_out_prompts,
    library,
    training_prompts,
)
from labsim.train.nano.corpus.pools import POOLS
from labsim.train.nano.corpus.side import Side, half
from labsim.train.prompts import read_prompts

COUNT = 250
GENERATED = (chat, agent, documents)


@pytest.fixture(scope="module")
def spoken() -> dict[bool, tuple[set[str], list[list[dict[str, str]]]]]:
    """Per side: every template said, and the conversations of the generated domains."""
    found = {}
    for held_out in (False, True):
        side = Side(held_out, 7)
        conversations = [module.conversation(side) for module in GENERATED for _ in range(COUNT)]
        for _ in range(COUNT):
            code.conversation(side)
        found[held_out] = (side.said, conversations)
    return found


def test_a_pool_is_cut_into_two_parts_that_never_meet() -> None:
    for pool in POOLS.values():
        training, held_out = set(half(pool, False)), set(half(pool, True))
        assert training and held_out and training | held_out == set(pool) and not training & held_out
    with pytest.raises(ValueError, match="at least 3"):
        half(("one", "two"), True)


def test_no_template_is_said_on_both_sides(spoken) -> None:
    training, held_out = spoken[False][0], spoken[True][0]
    shared = {template for template in training & held_out if len(template.split()) > 1}
    assert len(training) > 550 and len(held_out) > 150
    assert shared == set()


def masked_sentences(conversations: list[list[dict[str, str]]]) -> set[str]:
    """Sentences of six words or more, with numbers, capitalised names and pool words masked; no JSON, no file lines."""
    entries = sorted({e for pool in POOLS.values() for e in pool}, key=len, reverse=True)
    words = re.compile(r"\b(?:" + "|".join(re.escape(entry) for entry in entries) + r")\b")
    found = set()
    for messages in conversations:
        for message in messages:
            if message["role"] in ("system", "tool"):
                continue
            text = re.sub(r"<tool_call>.*?</tool_call>|```.*?```", "", message["content"], flags=re.S)
            for sentence in re.split(r"(?<=[.?!:])\s+|\n", text):
                if len(sentence.split()) >= 6:
                    found.add(re.sub(r"\d+|\b[A-Z]\w+", "_", words.sub("_", sentence)))
    return found


def test_no_sentence_is_shared_once_names_and_numbers_are_masked(spoken) -> None:
    def without_library(conversations):
        # Passages of Python's help topics are split by topic, not by sentence.
        return [m for m in conversations if not any("::" in x["content"] or "Python" in x["content"] for x in m)]

    training = masked_sentences(without_library(spoken[False][1]))
    held_out = masked_sentences(without_library(spoken[True][1]))
    # A sentence that consists of masks only says nothing.
    shared = {s for s in training & held_out if len(re.findall(r"[a-z]{2,}", s)) >= 3}
    assert len(held_out) > 300
    assert shared == set()


def test_modules_and_topics_belong_to_one_side() -> None:
    training, held_out = ({m.name.split(".")[0] for m in library.modules(side)} for side in (False, True))
    assert len(held_out) >= 10 and not training & held_out
    training, held_out = ({name for name, _ in library.topics(side)} for side in (False, True))
    assert len(held_out) >= 3 and not training & held_out


@pytest.mark.parametrize("domain", DOMAINS)
def test_prompts_differ_and_end_where_the_assistant_speaks(domain: str) -> None:
    training, held_out = training_prompts(domain, 60, seed=3), held_out_prompts(domain, 60, seed=3)
    assert len(training) == len(held_out) == 60
    keys = [{json.dumps(prompt) for prompt in side} for side in (training, held_out)]
    assert len(keys[0]) == len(keys[1]) == 60 and not keys[0] & keys[1]
    last = [{prompt[-1]["content"] for prompt in side if prompt[-1]["role"] == "user"} for side in (training, held_out)]
    assert not last[0] & last[1]
    assert all(prompt[-1]["role"] in ("user", "tool") for prompt in training + held_out)
    assert training == training_prompts(domain, 60, seed=3) != training_prompts(domain, 60, seed=4)


def test_an_unknown_domain_is_named() -> None:
    with pytest.raises(ValueError, match="'chatt': did you mean chat"):
        training_prompts("chatt", 1, 0)
    with pytest.raises(ValueError, match="count = -1"):
        held_out_prompts("chat", -1, 0)


@pytest.mark.parametrize("held_out", [False, True])
def test_tool_calls_parse_and_name_a_tool_of_the_system_prompt(held_out: bool) -> None:
    side = Side(held_out, 11)
    calls = 0
    for _ in range(COUNT):
        messages = agent.conversation(side)
        for before, message in itertools.pairwise(messages):
            if message["role"] == "tool":
                call = json.loads(re.search(r"<tool_call>\n(.*)\n</tool_call>", before["content"]).group(1))
                assert set(call) == {"name", "arguments"}
                assert re.search(rf'"name": "{call["name"]}"|- {call["name"]}\(', messages[0]["content"])
                assert all(key in messages[0]["content"] for key in call["arguments"])
                calls += 1
        assert messages[-1]["role"] == "assistant" and "<tool_call>" not in messages[-1]["content"]
    assert calls > 2 * COUNT


def test_final_answers_quote_the_tool_output() -> None:
    side = Side(False, 12)
    quoted = 0
    for _ in range(COUNT):
        messages = agent.conversation(side)
        output = " ".join(m["content"] for m in messages if m["role"] == "tool" or "<tool_call>" in m["content"])
        quoted += any(word.strip(".,:;()`") in output for word in messages[-1]["content"].split() if len(word) > 3)
    assert quoted > 0.9 * COUNT


def test_a_renamed_definition_is_the_same_tree_with_another_name() -> None:
    side = Side(False, 13)
    renamed = 0
    for definition in library.definitions(False)[:400:4]:
        if not code._parses(definition.source) or not (names := code.names_in(definition.source)):
            continue
        old = side.rng.choice(names)
        before = ast.parse(definition.source)
        after = ast.parse(code.rename(definition.source, old, "entirely_new"))
        assert [type(node) for node in ast.walk(before)] == [type(node) for node in ast.walk(after)]
        used = [node.id for node in ast.walk(after) if isinstance(node, ast.Name)]
        expected = [node.id for node in ast.walk(before) if isinstance(node, ast.Name)]
        assert used == ["entirely_new" if name == old else name for name in expected]
        renamed += 1
    assert renamed > 50


def test_articles_fit_and_code_in_a_prompt_is_left_alone() -> None:
    side = Side(False, 1)
    assert side.fill("a {word} and a {other}", {"word": "owl", "other": "unit"}) == "an owl and a unit"
    assert side.fill("{code}", {"code": "for a in x: a or b"}) == "for a in x: a or b"


def test_document_answers_are_in_the_document() -> None:
    side = Side(True, 2)
    for _ in range(20):
        text, facts = documents.document(side, 300)
        assert all(fact in text for fact, _, _ in facts)
        assert 250 < len(text.split()) < 700


def test_natural_prose_belongs_to_the_training_side() -> None:
    held_out = {repr(prompt.messages) for prompt in read_prompts(data_directory() / "prompts" / "held_out.jsonl")}
    for domain in answered.SHARE:
        found = answered.conversations(domain)
        assert len(found) > 20, domain
        assert not {repr(conversation[:-1]) for conversation in found} & held_out
        assert all(conversation[-1]["role"] == "assistant" for conversation in found)
        assert all(answered.conversation(domain, Side(True, i), 1000) is None for i in range(50))
        drawn = [answered.conversation(domain, Side(False, i), 1000) is not None for i in range(400)]
        assert sum(drawn) / 400 == pytest.approx(answered.SHARE[domain], abs=0.08)


def test_a_cut_answer_ends_with_a_whole_sentence_and_loops_are_left_out() -> None:
    assert answered.whole_sentences({"finish": "length", "text": "One. Two. Thr"}) == "One. Two."
    assert answered.whole_sentences({"finish": "stop", "text": "One. Two. Thr"}) == "One. Two. Thr"
    assert answered.repetition("a b c d a b c d") == pytest.approx(1 / 5)
    assert answered.repetition("one two") == 0
