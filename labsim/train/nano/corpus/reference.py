"""Chat about Python, answered from real docstrings and help topics: prose that no template of ours has written."""

from __future__ import annotations

from . import library
from .side import Side

ASK_WHAT = (
    "What does {name} do?",
    "What is {name} for?",
    "Explain {name} from the {module} module.",
    "How do I use {name}?",
    "Tell me about {module}.{name}.",
    "I found {name} in {module}. What is it?",
    "Describe {name}.",
    "help({name})",
    "Can you explain what {module}.{name} does?",
    "When would I use {name}?",
    "{name}?",
    "What is the purpose of {module}.{name}?",
    "In Python, what does {name} in {module} do?",
    "I am a {job} new to Python. What is {name}?",
)
LEAD = (
    "",
    "",
    "",
    "",
    "From its documentation:",
    "`{name}`:",
    "In the {module} module, {name} does this:",
    "Here is what it does.",
    "It is part of {module}.",
    "The docstring says:",
)
ASK_MODULE = (
    "What is the {module} module?",
    "What can I do with {module}?",
    "Give me an overview of {module}.",
    "import {module}: what do I get?",
    "Explain the Python module {module}.",
    "Why would I import {module}?",
)
ASK_TOPIC = (
    "Explain {topic} in Python.",
    "What does Python's reference say about {topic}?",
    "Tell me about {topic}.",
    "I don't understand {topic}. Help me.",
    "How does {topic} work in Python?",
    "Summarise {topic} for me.",
    "What should I know about {topic} in Python?",
)
ASK_BOTH = (
    "What is the difference between {name} and {other}?",
    "Compare {name} and {other}.",
    "{name} or {other}?",
    "When do I use {name} and when {other}?",
    "How do {name} and {other} differ?",
)
TELL_BOTH = (
    "{name}: {first}.\n{other}: {second}.",
    "With {name}: {first}. With {other}: {second}.",
    "- {name}: {first}\n- {other}: {second}",
    "The first: {first}. The second: {second}.",
    '{name} is described as "{first}", while {other} is described as "{second}".',
)
ASK_SIGNATURE = (
    "What are the arguments of {name}?",
    "Show me the signature of {name}.",
    "Which parameters does {name} take?",
    "How is {name} declared in {module}?",
)
SYSTEMS = (
    "You are a Python expert.",
    "Answer questions about Python's standard library.",
    "You are a programming tutor.",
    "You answer from the documentation.",
    "You help developers. Be precise.",
)


def what_is(side: Side) -> list[tuple[str, str]]:
    d = side.rng.choice(library.documented(side.held_out))
    names = {"name": d.name, "module": d.module}
    doc = d.docstring
    if side.chance(0.4):
        doc = library.prose(doc.split("\n\n")[0])
    lead = side.say(LEAD, names)
    turns = [
        (side.say(ASK_WHAT, names), f"{lead} {doc}" if lead and len(doc) < 200 else f"{lead}\n\n{doc}" if lead else doc)
    ]
    if side.chance(0.2):
        turns.append((side.say(ASK_SIGNATURE, names), f"```python\n{d.source.splitlines()[0]}\n```"))
    return turns


def module(side: Side) -> list[tuple[str, str]]:
    m = side.rng.choice([m for m in library.modules(side.held_out) if len(m.docstring) > 60])
    paragraphs = [library.prose(p) for p in m.docstring.split("\n\n") if library.is_prose(p)][:3] or [m.docstring[:600]]
    return [(side.say(ASK_MODULE, {"module": m.name}), "\n\n".join(paragraphs))]


def topic(side: Side) -> list[tuple[str, str]]:
    name, paragraphs = side.rng.choice(library.topics(side.held_out))
    prose = [library.prose(p) for p in paragraphs if library.is_prose(p)]
    if not prose:
        return what_is(side)
    start = side.rng.randrange(len(prose))
    return [(side.say(ASK_TOPIC, {"topic": name}), "\n\n".join(prose[start : start + side.rng.randint(1, 3)]))]


def both(side: Side) -> list[tuple[str, str]]:
    a, b = (side.rng.choice(library.documented(side.held_out)) for _ in range(2))
    context = {
        "name": a.name,
        "other": b.name,
        "first": library.first_sentence(a.docstring),
        "second": library.first_sentence(b.docstring),
    }
    return [(side.say(ASK_BOTH, context), side.say(TELL_BOTH, context))]


def conversation(side: Side) -> list[dict[str, str]]:
    """One or two questions about the standard library."""
    messages = [{"role": "system", "content": side.say(SYSTEMS)}] if side.chance(0.3) else []
    for kind in side.rng.choices((what_is, module, topic, both), (6, 1, 3, 1), k=side.rng.choice((1, 1, 2))):
        for ask, answer in kind(side):
            messages += [{"role": "user", "content": ask}, {"role": "assistant", "content": answer}]
    return messages
