"""The shipped prompt sets: sizes, training apart from evaluation, agent turns, templates; and the reader's errors."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from jsonschema import validate

from labsim.train.prompts import DOMAINS, Prompt, read_prompts, read_system_prompts

PROMPTS = Path(__file__).resolve().parents[2] / "data" / "prompts"
TRAIN = "train"
EVALUATION = ("held_out", "bench_chat", "bench_code_edit", "bench_summarise_quotes")
FILES = (TRAIN, *EVALUATION)
SENTENCE_WORDS = 8  # a sentence of this many words is no coincidence


def prompts_of(name: str) -> list[Prompt]:
    return read_prompts(PROMPTS / f"{name}.jsonl")


def sentences(text: str) -> set[str]:
    """Sentences and lines of at least SENTENCE_WORDS words, without case, punctuation and figures' form."""
    found = set()
    for line in re.split(r"(?<=[.!?:])\s+|\n", text):
        words = re.findall(r"\w+", line.lower())
        if len(words) >= SENTENCE_WORDS:
            found.add(" ".join(words))
    return found


def texts(prompt: Prompt) -> list[str]:
    return [message["content"] for message in prompt.messages]


def last_user(prompt: Prompt) -> str:
    return next(message["content"] for message in reversed(prompt.messages) if message["role"] == "user")


def test_the_sets_have_the_promised_sizes() -> None:
    train = Counter(prompt.domain for prompt in prompts_of(TRAIN))
    assert train.total() >= 700
    assert all(train[domain] >= least for domain, least in zip(DOMAINS, (300, 180, 120, 100), strict=True))
    held_out = Counter(prompt.domain for prompt in prompts_of("held_out"))
    assert held_out.total() >= 120 and all(held_out[domain] >= 30 for domain in DOMAINS)
    for name, domain in zip(EVALUATION[1:], ("chat", "code", "document"), strict=True):
        assert Counter(prompt.domain for prompt in prompts_of(name)) == {domain: 24}


def test_the_readme_counts_what_is_there() -> None:
    readme = (PROMPTS / "README.md").read_text()
    for name in (TRAIN, "held_out"):
        counts = Counter(prompt.domain for prompt in prompts_of(name))
        listed = ", ".join(f"{domain} {counts[domain]}" for domain in DOMAINS)
        assert f"| `{name}.jsonl` | {counts.total()}: {listed} |" in readme


def test_ids_and_conversations_are_unique_over_all_files() -> None:
    everything = [prompt for name in FILES for prompt in prompts_of(name)]
    assert len({prompt.id for prompt in everything}) == len(everything)
    assert len({json.dumps(prompt.messages) for prompt in everything}) == len(everything)


@pytest.mark.parametrize("name", FILES)
def test_every_conversation_waits_for_the_assistant(name: str) -> None:
    for prompt in prompts_of(name):
        roles = [message["role"] for message in prompt.messages]
        assert roles[-1] in {"user", "tool"}, prompt.id
        turns = roles[1:] if roles[0] == "system" else roles
        assert turns[0] == "user", prompt.id
        assert all((a == "assistant") != (b == "assistant") for a, b in pairwise(turns)), prompt.id
        assert prompt.split == name


@pytest.mark.parametrize("name", EVALUATION)
def test_evaluation_shares_no_question_and_no_sentence_with_training(name: str) -> None:
    train = prompts_of(TRAIN)
    questions = {last_user(prompt).lower() for prompt in train}
    known = {sentence for prompt in train for text in texts(prompt) for sentence in sentences(text)}
    for prompt in prompts_of(name):
        assert last_user(prompt).lower() not in questions, prompt.id
        assert not known & {sentence for text in texts(prompt) for sentence in sentences(text)}, prompt.id


def test_benchmarks_share_no_sentence_with_the_held_out_set() -> None:
    held_out = {s for prompt in prompts_of("held_out") for text in texts(prompt) for s in sentences(text)}
    for name in EVALUATION[1:]:
        for prompt in prompts_of(name):
            assert not held_out & {s for text in texts(prompt) for s in sentences(text)}, prompt.id


@pytest.mark.parametrize("name", (TRAIN, "held_out"))
def test_agent_turns_are_json_and_call_tools_that_exist(name: str) -> None:
    agents = [prompt for prompt in prompts_of(name) if prompt.domain == "agent"]
    errors = calls = 0
    for prompt in agents:
        assert prompt.messages[0]["role"] == "system" and json.dumps(prompt.tools) in prompt.messages[0]["content"]
        schemas = {tool["name"]: tool["parameters"] for tool in prompt.tools}
        called = False
        for message in prompt.messages[1:]:
            if message["role"] == "tool":
                assert called, f"{prompt.id}: a result without a call"
                result = json.loads(message["content"])
                errors += "error" in result
            called = message["role"] == "assistant" and message["content"].startswith("{")
            if called:
                call = json.loads(message["content"])
                assert call.keys() == {"name", "arguments"}, prompt.id
                validate(call["arguments"], schemas[call["name"]])
                calls += 1
    assert calls > len(agents) and errors > len(agents) / 5, "agent prompts hold calls, and errors to recover from"


def test_held_out_agents_use_other_tools() -> None:
    train, held_out = (
        {tool["name"] for prompt in prompts_of(name) for tool in prompt.tools} for name in (TRAIN, "held_out")
    )
    assert train and held_out and not train & held_out


@pytest.mark.parametrize("name", (TRAIN, "held_out"))
def test_documents_have_the_promised_length(name: str) -> None:
    for prompt in prompts_of(name):
        if prompt.domain == "document":
            assert 200 <= len(last_user(prompt).split()) <= 700, prompt.id


def test_benchmarks_have_the_promised_form() -> None:
    for prompt in prompts_of("bench_code_edit"):
        code = re.search(r"```\w+\n(.*?)\n```", last_user(prompt), re.DOTALL)
        assert code and 20 <= len(code.group(1).splitlines()) <= 45, prompt.id
    for prompt in prompts_of("bench_summarise_quotes"):
        words = len(last_user(prompt).split())
        assert 150 <= words <= 330, prompt.id
        assert "summar" in last_user(prompt).lower() and "two" in last_user(prompt).lower(), prompt.id


def test_unseen_system_prompts_are_unseen() -> None:
    prompts = read_system_prompts(PROMPTS / "system_prompts.json")
    assert len(set(prompts.train)) == len(set(prompts.unseen)) == 12
    used = Counter(m["content"] for prompt in prompts_of(TRAIN) for m in prompt.messages if m["role"] == "system")
    assert all(used[text] >= 1 for text in prompts.train)
    trained = {s for prompt in prompts_of(TRAIN) for text in texts(prompt) for s in sentences(text)}
    for text in prompts.unseen:
        assert text not in used and text not in prompts.train
        assert not trained & sentences(text)


CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi."},
    {"role": "tool", "content": "{}"},
]
RENDERED = {
    "llama3": (
        "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHi.<|eot_id|>"
        "<|start_header_id|>ipython<|end_header_id|>\n\n{}<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "zephyr": (
        "<|system|>\nBe brief.</s>\n<|user|>\nHello</s>\n<|assistant|>\nHi.</s>\n<|tool|>\n{}</s>\n<|assistant|>\n"
    ),
    "plain": "Be brief.\n\nUser: Hello\n\nAssistant: Hi.\n\nTool: {}\n\nAssistant:",
}


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")))


def test_every_template_has_an_expected_rendering() -> None:
    assert {path.stem for path in (PROMPTS / "templates").glob("*.jinja")} == set(RENDERED)


@pytest.mark.parametrize("name", RENDERED)
def test_templates_render_as_their_families_do(name: str, tokenizer) -> None:
    template = (PROMPTS / "templates" / f"{name}.jinja").read_text()

    def render(messages: list[dict[str, str]], generate: bool) -> str:
        return tokenizer.apply_chat_template(
            messages, chat_template=template, tokenize=False, add_generation_prompt=generate
        )

    assert render(CONVERSATION, True) == RENDERED[name]
    assert RENDERED[name].startswith(render(CONVERSATION, False))
    with pytest.raises(Exception, match="unknown role 'judge'"):
        render([{"role": "judge", "content": "no"}], True)


GOOD = '{"id": "a", "domain": "chat", "messages": [{"role": "user", "content": "Hi"}]}'


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", r"not JSON \(.*column"),
        ("[1]", "a list; expected an object with id, domain and messages"),
        ('{"id": "b", "domain": "chat"}', "messages is missing"),
        (GOOD.replace('"a"', "7"), "id is 7; expected a non-empty string"),
        (GOOD.replace("chat", "chats"), "domain is 'chats'; did you mean 'chat'"),
        (GOOD.replace('"domain"', '"tool": [], "domain"'), "key 'tool' is unknown; did you mean 'tools'"),
        (GOOD.replace('"domain"', '"tools": {}, "domain"'), "tools is {}; expected a list"),
        (GOOD.replace('"domain"', '"tools": [1], "domain"'), r"tools is \[1\]; expected a list"),
        (GOOD.replace("[{", "{").replace("}]", "}"), "messages is .*expected a non-empty list"),
        (GOOD.replace("user", "usr"), r"messages\[0\] has the role 'usr'; did you mean 'user'"),
        (GOOD.replace("user", "assistant"), "the last message is from 'assistant'"),
        (GOOD.replace('"Hi"', '" "'), r"messages\[0\] has the content ' '"),
        (GOOD.replace('"Hi"', '"Hi", "name": "x"'), r"messages\[0\] is .*expected an object with role and content"),
        (GOOD.replace("}]", '}, {"role": "system", "content": "x"}]'), r"messages\[1\] has the role 'system'"),
        (GOOD.replace('"Hi"', '"\\ud800"'), r"holds '\\ud800', half of a character"),
        ("[" * 100_000, "nested too deeply"),
        ('{"id": ' + "1" * 5000 + "}", "not JSON"),
        (GOOD.replace("}]}", '}], "prompt": "Hi"}'), "messages and prompt both say"),
        ('{"id": "b", "domain": "chat", "prompt": 3}', "prompt is 3; expected a non-empty string"),
        ('{"id": "b", "domain": "chat", "messages": null}', "messages is null"),
        ('"a string"', "a str; expected an object"),
        (GOOD, "id 'a' is already on line 1"),
        (GOOD.replace('"a"', '"b"'), "conversation of 'b' is already on line 1"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n")
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))}:3: {complaint}"):
        read_prompts(path)


@pytest.mark.parametrize("named", [True, False])
def test_only_a_newline_ends_a_line(tmp_path: Path, named: bool) -> None:
    path, text = tmp_path / ("set.jsonl" if named else "set.txt"), "one\u2028two\x85three\ffour"
    line = GOOD.replace("Hi", text.replace("\f", "\\f")) if named else text
    path.write_bytes(b"\xef\xbb\xbf" + f"\n{line}\r\n".encode())
    [prompt] = read_prompts(path, named=named)
    assert prompt.messages[0]["content"] == text
    assert prompt.line == 2


@pytest.mark.parametrize("named", [True, False])
def test_what_is_not_utf_8_is_named_with_its_line(tmp_path: Path, named: bool) -> None:
    path = tmp_path / "set.txt"
    path.write_bytes(GOOD.encode() + b"\nabc \xff\n")
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))}:2: not UTF-8 text \(byte 0xff at 4\)"):
        read_prompts(path, named=named)


def test_for_answering_alone_a_line_may_say_less(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    lines = ['{"prompt": "one", "messages": null}', '"two"', '{"id": "c", "prompt": "three"}', GOOD]
    path.write_text("\n\n".join(lines))
    prompts = read_prompts(path, named=False)
    assert [prompt.text for prompt in prompts] == ["one", "two", "three", None]
    assert [prompt.id for prompt in prompts] == ["", "", "c", "a"]
    assert [prompt.line for prompt in prompts] == [1, 3, 5, 7]
    assert prompts[1].messages == ({"role": "user", "content": "two"},)
    for bad in (GOOD.replace("user", "assistant"), GOOD.replace("user", "judge"), "7", '""'):
        path.write_text(bad)
        with pytest.raises(ValueError, match=r"some\.jsonl:1: "):
            read_prompts(path, named=False)


def test_a_prompt_set_may_hold_one_turn_as_text(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text('{"id": "b", "domain": "chat", "prompt": "Hi", "messages": null}')
    [prompt] = read_prompts(path)
    assert (prompt.domain, prompt.text, prompt.messages) == ("chat", "Hi", ({"role": "user", "content": "Hi"},))


def test_an_empty_file_is_no_prompt_set(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ValueError, match="no prompts"):
        read_prompts(tmp_path / "empty.jsonl")


@pytest.mark.parametrize("text", ["[", "[]", '{"train": ["a"]}', '{"train": ["a"], "unseen": [1]}'])
def test_bad_system_prompts_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "system.json").write_text(text)
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / "system.json"))):
        read_system_prompts(tmp_path / "system.json")
