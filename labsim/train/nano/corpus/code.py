"""Code: the standard library's functions as chat turns (write, rename, document, explain, complete, fix).

Renaming matters most here: the answer is the code of the prompt with one name changed, so a model that can copy
gives a prompt-lookup draft something to find.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re

from . import library
from .library import Definition
from .side import Side

ASK_WRITE = (
    "Write a Python {kind} that does this: {doc}.",
    "Write a {kind} `{name}`: {doc}.",
    "I need a {kind} called {name}. {doc}.",
    "Implement {name} in Python. {doc}.",
    "{doc}. Please write the code.",
    "Show me the code of {module}.{name}.",
    "How is {name} written in {module}?",
    "Can you code a {kind} named {name}?",
    "Python {kind}: {doc}",
)
ASK_RENAME = (
    "Rename {old} to {new} in this code:\n\n{code}",
    "Write this {kind} again with {old} renamed to {new}:\n\n{code}",
    "{code}\n\nPlease rename `{old}` to `{new}`.",
    "In the following code, call {old} {new} instead.\n\n{code}",
    "Change the name {old} into {new}, everything else stays.\n\n{code}",
    "Replace every {old} by {new}:\n\n{code}",
    "{code}\n\nI don't like the name {old}. Use {new}.",
)
ASK_DOC = (
    "Add a docstring to this {kind}:\n\n{code}",
    "{code}\n\nDocument this {kind}, please.",
    "Write this {kind} again with a docstring.\n\n{code}",
    "This {kind} has no docstring. Add one.\n\n{code}",
    "Please add documentation:\n\n{code}",
)
ASK_STRIP = (
    "Remove the docstring:\n\n{code}",
    "{code}\n\nThe same without the docstring.",
    "Drop the documentation from this {kind}.\n\n{code}",
    "Write this {kind} without comments in quotes:\n\n{code}",
)
ASK_EXPLAIN = (
    "What does this code do?\n\n{code}",
    "Explain this {kind}:\n\n{code}",
    "{code}\n\nIn one sentence, what is this for?",
    "I found this in {module}. What is it?\n\n{code}",
    "Describe the {kind} below.\n\n{code}",
)
TELL_EXPLAIN = (
    "It does this: {doc}.",
    "{doc}.",
    "The {kind} {name} is described so: {doc}.",
    "`{name}`: {doc}.",
    "In short: {doc}.",
    "This is {module}.{name}. {doc}.",
)
ASK_COMPLETE = (
    "Complete this code:\n\n{head}",
    "{head}\n\nHow does it go on?",
    "Finish the {kind}:\n\n{head}",
    "Continue:\n\n{head}",
    "Please write the rest.\n\n{head}",
)
ASK_REPEAT = (
    "Show me this code again, unchanged:\n\n{code}",
    "Copy this {kind}:\n\n{code}",
    "Format this as a code block:\n\n{code}",
    "{code}\n\nPut this into a Markdown block.",
)
ASK_TYPES = (
    "Add type hints to the arguments:\n\n{code}",
    "{code}\n\nAnnotate the parameters.",
    "Write this function with type hints.\n\n{code}",
    "Please add types:\n\n{code}",
)
INTRO = (
    "",
    "",
    "",
    "Here it is:",
    "Sure:",
    "Here is the {kind}:",
    "Of course.",
    "Done:",
    "Here you go:",
    "The new version:",
)
OUTRO = (
    "",
    "",
    "",
    "",
    "",
    "I renamed nothing else.",
    "Let me know if you want tests.",
    "It is the code of {module}.",
    "",
    "",
)
SYSTEMS = (
    "You are a coding assistant.",
    "You write clean Python.",
    "You edit code exactly as asked.",
    "Answer with code only.",
    "You are a pair programmer.",
    "You are an assistant inside an editor.",
)
HINTS = {
    "path": "str",
    "name": "str",
    "key": "str",
    "text": "str",
    "msg": "str",
    "string": "str",
    "data": "bytes",
    "n": "int",
    "size": "int",
    "index": "int",
    "i": "int",
    "count": "int",
    "limit": "int",
    "timeout": "float | None",
    "file": "IO[str]",
    "filename": "str",
    "value": "object",
    "obj": "object",
    "args": "object",
    "kwargs": "object",
    "line": "str",
    "flag": "bool",
    "other": "object",
    "default": "object",
    "s": "str",
    "x": "float",
    "y": "float",
}
NAME = re.compile(r"\b[A-Za-z_]\w*\b")
BUILTIN = set(dir(builtins))


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def without_docstring(d: Definition) -> str | None:
    """The definition's source without its docstring, or None if nothing would be left."""
    body = ast.parse(d.source).body[0].body
    if len(body) < 2 or not d.docstring or body[0].lineno == ast.parse(d.source).body[0].lineno:
        return None
    lines = d.source.splitlines()
    return "\n".join(lines[: body[0].lineno - 1] + lines[body[0].end_lineno :])


def names_in(code: str) -> list[str]:
    """The names a rename may pick: three letters or more, used at least twice, no keyword and no builtin."""
    found = [
        n for n in NAME.findall(code) if len(n) > 2 and not keyword.iskeyword(n) and n not in BUILTIN and n != "self"
    ]
    return sorted({n for n in found if found.count(n) > 1})


def rename(code: str, old: str, new: str) -> str:
    return re.sub(rf"\b{re.escape(old)}\b", new, code)


def new_name(side: Side) -> str:
    style = side.rng.randrange(4)
    a, b = side.pick("identifier"), side.pick("identifier")
    if style == 0:
        return str(a)
    return (f"{side.pick('verb')}_{b}", f"{a}_{b}", str(a).capitalize() + str(b).capitalize())[style - 1]


def typed(d: Definition) -> str | None:
    """The source with hints on the parameters of its first line that have a usual type, or None."""
    first, *rest = d.source.split("\n")
    match = re.fullmatch(r"def (\w+)\(([\w, ]+)\):", first)
    if d.kind != "function" or match is None:
        return None
    names = [part.strip() for part in match.group(2).split(",")]
    if not any(n in HINTS for n in names):
        return None
    hinted = ", ".join(f"{n}: {HINTS[n]}" if n in HINTS else n for n in names)
    return "\n".join([f"def {match.group(1)}({hinted}):", *rest])


def exchange(side: Side, d: Definition) -> tuple[str, str]:
    """One request about a definition, and its answer."""
    context: dict[str, object] = {
        "kind": d.kind,
        "name": d.name,
        "module": d.module,
        "doc": library.first_sentence(d.docstring),
    }
    bare = without_docstring(d)
    code = bare if bare and side.chance(0.6) else d.source
    context["code"] = fenced(code) if side.chance(0.6) else code
    task = side.rng.choices(
        ("write", "rename", "doc", "strip", "explain", "complete", "repeat", "types"), (5, 9, 2, 2, 3, 2, 2, 2)
    )[0]
    names = names_in(code)
    answer = fenced(code)
    if task == "rename" and names:
        context |= {"old": side.rng.choice(names), "new": new_name(side)}
        ask, answer = side.say(ASK_RENAME, context), fenced(rename(code, str(context["old"]), str(context["new"])))
    elif task == "types" and (hinted := typed(d)):
        ask, answer = side.say(ASK_TYPES, context | {"code": fenced(d.source)}), fenced(hinted)
    elif task == "doc" and bare:
        ask, answer = side.say(ASK_DOC, context | {"code": fenced(bare)}), fenced(d.source)
    elif task == "strip" and bare:
        ask, answer = side.say(ASK_STRIP, context | {"code": fenced(d.source)}), fenced(bare)
    elif task == "explain" and d.docstring:
        return side.say(ASK_EXPLAIN, context), side.say(TELL_EXPLAIN, context)
    elif task == "complete" and code.count("\n") > 4:
        cut = side.rng.randint(2, code.count("\n") - 1)
        context["head"] = fenced("\n".join(code.split("\n")[:cut]))
        ask = side.say(ASK_COMPLETE, context)
    elif task == "write" and d.docstring:
        ask, answer = side.say(ASK_WRITE, context), fenced(d.source)
    else:
        ask = side.say(ASK_REPEAT, context)
    intro, outro = side.say(INTRO, context), side.say(OUTRO, context)
    return ask, "\n\n".join(part for part in (intro, answer, outro) if part)


def conversation(side: Side) -> list[dict[str, str]]:
    """One or two requests about the same definition of the standard library."""
    messages = [{"role": "system", "content": side.say(SYSTEMS)}] if side.chance(0.3) else []
    pool = library.definitions(side.held_out)
    d = side.rng.choice(pool)
    while not d.source.startswith(("def ", "class ", "async def ")) or not _parses(d.source):
        d = side.rng.choice(pool)
    for _ in range(side.rng.choice((1, 1, 2))):
        ask, answer = exchange(side, d)
        messages += [{"role": "user", "content": ask}, {"role": "assistant", "content": answer}]
    return messages


def _parses(source: str) -> bool:
    # Dedenting breaks definitions whose strings reach the left margin.
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def source_text(side: Side) -> str:
    """Plain source: some 40 to 160 lines of one module."""
    module = side.rng.choice(library.modules(side.held_out))
    lines = module.source.splitlines()
    start = side.rng.randrange(max(1, len(lines) - 40))
    return "\n".join(lines[start : start + side.rng.randint(40, 160)])
