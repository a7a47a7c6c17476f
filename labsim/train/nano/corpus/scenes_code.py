"""Agent scenes in a code base: find a setting and change it, repair a failing test."""

from __future__ import annotations

from .trace import AGAIN, Trace
from .worlds import file_tree

THANKS = (
    "Thanks. And {next}",
    "Good. Next: {next}",
    "Now {next}",
    "One more thing: {next}",
    "Great, {next}",
    "Perfect. Please {next}",
)
ASK_FILE = (
    "What is in {path}?",
    "Show me the setting `{key}`. It should be in {path}.",
    "Find the value of {key} in the project.",
    "Which value has {key}? Look into {folder}.",
    "Please check {key} in {path}.",
    "I need to know what {key} is set to.",
    "Look up {key} for me; I think it is in the {folder} folder.",
    "Read {path} and tell me about {key}.",
)
THINK_FILE = (
    "",
    "",
    "I look at the files first.",
    "Let me open it.",
    "First I list the folder.",
    "I search for {key}.",
    "",
    "Reading the file.",
)
TELL_FILE = (
    "In {path}, {key} is {value}.",
    "`{key}` is set to {value} (see {path}).",
    "The file {path} says {key} = {value}.",
    "{key} has the value {value}.",
    "It is {value}. I found it in {path}.",
    "The value is {value}; {path} has {lines} lines.",
)
ASK_EDIT = (
    "set {key} to {new} in {path}.",
    "change {key} to {new}.",
    "make {key} {new} and run the tests.",
    "update {path}: {key} must be {new}.",
    "please replace the value of {key} by {new}.",
    "{key} should be {new}. Fix it.",
)
TELL_EDIT = (
    "Done: {key} in {path} is now {new}.",
    "I changed {key} from {value} to {new}. {passed} tests pass.",
    "{path} now says {key} = {new}.",
    "The value was {value} and is {new} now.",
    "Updated. All {passed} tests pass.",
    "Finished. {key}: {value} -> {new}.",
)


def files(trace: Trace) -> None:
    side = trace.side
    tree = file_tree(side)
    path = side.rng.choice(sorted(tree))
    settings = tree[path]
    key = side.rng.choice(sorted(settings))
    folder = path.split("/")[0]
    text = "\n".join(f"{k} = {v}" for k, v in settings.items())
    context = {"path": path, "key": key, "value": settings[key], "folder": folder, "lines": len(settings)}
    trace.user(ASK_FILE, context)
    if side.chance(0.4):
        wrong = f"{side.pick('folder')}/{path.split('/')[1]}"
        if wrong not in tree:
            error = f"no such file: {wrong}"
            trace.call("read", {"path": wrong}, {"error": error}, side.say(THINK_FILE, context))
            trace.call("list", {"path": "."}, {"files": sorted(tree)}, side.say(AGAIN, context | {"error": error}))
    elif side.chance(0.6):
        hits = [f"{p}:{list(s).index(key) + 1}: {key} = {s[key]}" for p, s in sorted(tree.items()) if key in s]
        trace.call(
            "search",
            {"pattern": key, "path": side.rng.choice((".", folder))},
            "\n".join(hits),
            side.say(THINK_FILE, context),
        )
    else:
        trace.call(
            "list",
            {"path": folder},
            {"files": [p for p in sorted(tree) if p.startswith(folder)]},
            side.say(THINK_FILE, context),
        )
    trace.call("read", {"path": path}, text)
    trace.answer(side.say(TELL_FILE, context))
    if side.chance(0.5):
        old = str(settings[key])
        context["new"] = side.rng.randint(1, 500) if old.isdigit() else side.pick("identifier")
        context["passed"] = side.rng.randint(5, 90)
        trace.user(THANKS, {"next": side.say(ASK_EDIT, context)})
        trace.call(
            "edit",
            {"path": path, "old": f"{key} = {old}", "new": f"{key} = {context['new']}"},
            {"ok": True, "replaced": 1},
        )
        if side.chance(0.6):
            trace.call(
                "test",
                {"path": side.rng.choice(("tests", "."))},
                f"{context['passed']} passed in {side.rng.randint(1, 90) / 10}s",
            )
        trace.answer(side.say(TELL_EDIT, context))


ASK_TEST = (
    "The tests fail. Please fix them.",
    "Run the tests and repair what is broken.",
    "CI is red on {path}. What is wrong?",
    "Something in {path} is wrong. Can you mend it?",
    "Make the test suite green again.",
    "test_{name} fails since yesterday. Find out why.",
    "Debug {name} for me.",
)
TELL_TEST = (
    "Fixed: {name} used `{bad}` where `{good}` was needed. All {passed} tests pass.",
    "The bug was in {path}: `{bad}` instead of `{good}`.",
    "{name} returned the wrong value; I replaced `{bad}` by `{good}`.",
    "Green again, {passed} tests passed. The culprit was `{bad}` in {path}.",
    "I changed one line of {path}. Now {passed} tests pass.",
    "`{bad}` became `{good}`. That was all.",
)
SEE_TEST = (
    "The assertion points to {name}. I open {path}.",
    "Let me read {path}.",
    "So {name} gives a wrong result.",
    "",
    "One failure, in {name}.",
    "I look at the function.",
    "The test expects something else.",
)
BUGS = (
    ("+", "-"),
    ("-", "+"),
    ("*", "+"),
    ("<", "<="),
    (">=", ">"),
    ("//", "/"),
    ("min", "max"),
    ("==", "!="),
    ("[0]", "[1]"),
    ("% 2", "% 3"),
)


def failing_test(trace: Trace) -> None:
    side = trace.side
    name = f"{side.pick('verb')}_{side.pick('identifier')}"
    a, b = side.picks("identifier", 2)
    path = f"{side.pick('folder')}/{side.pick('stem')}.py"
    bad, good = side.pick(BUGS)
    line = {"min": f"{bad}({a}, {b})", "max": f"{bad}({a}, {b})"}.get(
        bad, f"{a}{bad}" if bad[0] in "[%" else f"{a} {bad} {b}"
    )
    fixed = line.replace(bad, good, 1)
    total, wrong, right = side.rng.randint(6, 60), side.rng.randint(0, 40), side.rng.randint(41, 99)
    context = {"name": name, "path": path, "bad": line, "good": fixed, "passed": total}
    trace.user(ASK_TEST, context)
    failure = (
        f"FAILED tests/test_{path.split('/')[1][:-3]}.py::test_{name}\nE   assert {wrong} == {right}\n"
        f"E    +  where {wrong} = {name}({side.rng.randint(1, 30)}, {side.rng.randint(1, 30)})\n"
        f"1 failed, {total - 1} passed"
    )
    trace.call("test", {"path": "tests"}, failure)
    docstring = f"{str(side.pick('verb')).capitalize()} the {a} and the {b}."
    body = f'def {name}({a}, {b}):\n    """{docstring}"""\n    return {line}\n'
    trace.call("read", {"path": path}, body, side.say(SEE_TEST, context))
    trace.call("edit", {"path": path, "old": f"return {line}", "new": f"return {fixed}"}, {"ok": True, "replaced": 1})
    trace.call("test", {"path": "tests"}, f"{total} passed in {side.rng.randint(1, 90) / 10}s")
    trace.answer(side.say(TELL_TEST, context))
