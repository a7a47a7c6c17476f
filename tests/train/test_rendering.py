"""The same conversation in other clothes: token by token, on nano's own templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from labsim.models.load import Target, load_target
from labsim.train.evaluate import chosen, prompts_of
from labsim.train.probes.rendering import AS_TRAINED, Rendering, template_called

TALK = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why is it dark?"})


@pytest.fixture(scope="module")
def nano() -> Target:
    return load_target("nano", device="cpu")


def text(target: Target, rendering: Rendering) -> str:
    return target.decode(rendering(target, TALK), keep_special=True)


def test_the_four_corners(nano: Target) -> None:
    own = (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhy is it dark?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert AS_TRAINED(nano, TALK) == nano.encode_chat(TALK)
    assert text(nano, AS_TRAINED) == "<|begin_of_text|>" + own
    assert text(nano, Rendering(bos=False)) == own
    assert text(nano, Rendering(template="none")) == "<|begin_of_text|>Be brief.\n\nWhy is it dark?\n\n"
    assert text(nano, Rendering(template="none", bos=False)) == "Be brief.\n\nWhy is it dark?\n\n"


def test_another_template_keeps_the_opening_token(nano: Target) -> None:
    headers, plain = (Rendering(template=template_called(name, nano)) for name in ("headers", "plain"))
    assert text(nano, headers).startswith("<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.")
    assert headers(nano, TALK).count(nano.tokenizer.bos_token_id) == 1
    assert text(nano, plain) == "<|begin_of_text|>Be brief.\n\nUser: Why is it dark?\n\nAssistant:"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("", "nothing is left"),
        ("{{ 1 / 0 }}", "fails on this conversation: ZeroDivisionError"),
        ("{{ [] + 1 }}", "fails on"),
    ],
)
def test_a_template_that_gives_no_prompt_is_refused(nano: Target, template: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rendering(template=template)(nano, TALK)


def test_another_users_home_is_no_template(nano: Target) -> None:
    with pytest.raises(ValueError, match="home of a user who is not there"):
        template_called("~no-such-user/a.jinja", nano)


def test_a_system_message_takes_the_place_of_the_old_one(nano: Target) -> None:
    said = text(nano, Rendering(system="Speak like a pirate."))
    assert "Speak like a pirate." in said
    assert "Be brief." not in said
    assert said.count("<|im_start|>system") == 1
    assert Rendering(system="Be brief.")(nano, TALK[1:]) == AS_TRAINED(nano, TALK)


def test_templates_by_name_and_by_file(nano: Target, tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}")
    assert text(nano, Rendering(template=template_called(str(path), nano))).endswith("[Be brief.][Why is it dark?]")
    assert template_called("own", nano) == "own"
    with pytest.raises(ValueError, match=r"template 'zephir' is neither own, none.*did you mean 'zephyr'"):
        template_called("zephir", nano)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        template_called(str(path), nano)


def test_a_long_context_is_rendered_alike(nano: Target) -> None:
    bare = Rendering(template="none", bos=False)
    for ids in chosen(nano, prompts_of("chat"), 300, 0, 2, 32, bare):
        assert 280 <= len(ids) <= 300
        assert not {nano.tokenizer.bos_token_id, *nano.encode("<|im_start|>")} & set(ids)
