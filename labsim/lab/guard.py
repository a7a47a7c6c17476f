"""Running a learner's function: with a time limit, with its output kept, with its error located.

Whatever the function does, `call` comes back with an `Outcome`: the value, or the exception with the learner's own
line, or the line at which the time ran out. A loop without end is interrupted by SIGALRM in the main thread; elsewhere
(and on systems without that signal) by an exception that a watchdog thread sends to this thread.

Limits: a single call into C code that never returns (`sum(itertools.count())`) cannot be interrupted from Python, and a
bare `except:` around long work inside an endless loop swallows most interruptions, so that ending it may take seconds.
The notebook runner's deadline ends both.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import inspect
import io
import linecache
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from .compare import difference

Result = TypeVar("Result")


class TimeLimit(BaseException):
    """The time is up. A BaseException, so that a learner's `except Exception` does not swallow it."""


@dataclass(frozen=True)
class Place:
    """A line of the learner's code: its number in the cell (or file) and its text."""

    line: int
    source: str

    def __str__(self) -> str:
        return f"line {self.line} of your cell: `{self.source}`" if self.source else f"line {self.line} of your cell"


@dataclass(frozen=True)
class Outcome:
    """What one call did. `error` is None when it returned; `slow` when the time limit ended it."""

    value: Any = None
    error: BaseException | None = None
    place: Place | None = None
    printed: str = ""
    slow: bool = False
    mutated: str | None = None

    @property
    def blank(self) -> bool:
        """True for the answer of an untouched stub: NotImplementedError, None, `...`, or a form full of `...`."""
        return isinstance(self.error, NotImplementedError) or (
            self.error is None and not self.slow and (self.value is None or untouched(self.value))
        )


def untouched(value: Any) -> bool:
    """Whether this is `...`, or a dictionary, list or tuple that holds nothing else, as {"A": ..., "B": ...} does."""
    if isinstance(value, Mapping):
        value = list(value.values())
    return value is ... or (isinstance(value, list | tuple) and len(value) > 0 and all(map(untouched, value)))


Inputs = tuple | Mapping[str, Any]


def call(function: Callable, inputs: Inputs, seconds: float) -> Outcome:
    """Call `function` with its own copy of `inputs` (a tuple of positional, or a mapping of keyword arguments).

    Anything it prints is kept in the outcome, not shown. KeyboardInterrupt passes through: the learner pressed stop.
    """
    given = copy.deepcopy(inputs)
    printed = io.StringIO()
    watch = Stopwatch(seconds)
    try:
        with contextlib.redirect_stdout(printed):
            value = within(seconds, lambda: function(**given) if isinstance(given, Mapping) else function(*given))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # Late is late, whatever a learner's own `except` made of the interruption.
        slow = isinstance(error, TimeLimit) or watch.left() < 0
        return Outcome(error=error, slow=slow, place=_place(function, error), printed=printed.getvalue())
    if watch.left() < 0:
        return Outcome(error=TimeLimit(), slow=True, printed=printed.getvalue())
    return Outcome(value=value, printed=printed.getvalue(), mutated=_mutated(function, inputs, given))


def within(seconds: float, run: Callable[[], Result]) -> Result:
    """`run()`, with TimeLimit raised inside it when it lasts longer than `seconds`.

    No context manager: an alarm that rings after the block and before `__exit__` has begun would skip the exit, and
    every later line would be interrupted.
    """
    on_main = threading.current_thread() is threading.main_thread()
    return (_alarm if on_main and hasattr(signal, "setitimer") else _watchdog)(seconds, run)


def _alarm(seconds: float, run: Callable[[], Result]) -> Result:
    armed = True

    def ring(signum: int, frame: object) -> None:
        if armed:
            raise TimeLimit

    previous = signal.signal(signal.SIGALRM, ring)
    started, pending, interval = time.monotonic(), 0.0, 0.0
    try:
        # It rings again and again: a bare `except:` in the learner's loop swallows some, not all of them.
        pending, interval = signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), 0.002)
        return run()
    finally:
        armed = False  # first and without a call: Python looks for signals at calls
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        if pending:  # somebody else's alarm, such as a test runner's: it goes on
            left = max(pending - (time.monotonic() - started), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, left, interval)


def _watchdog(seconds: float, run: Callable[[], Result]) -> Result:
    target = ctypes.c_ulong(threading.get_ident())
    send = ctypes.pythonapi.PyThreadState_SetAsyncExc
    over, done, lock = False, threading.Event(), threading.Lock()

    def watch() -> None:
        wait = max(seconds, 1e-3)
        while not done.wait(wait):
            with lock:
                if over:
                    return
                send(target, ctypes.py_object(TimeLimit))
            wait = 0.002

    def settle() -> None:
        """None is sent after the lock was held once with `over` set; the one that waits to be raised is taken back."""
        with lock:
            send(target, None)
        done.set()

    try:
        # Inside the block: on a busy machine the time is up before `start` comes back.
        threading.Thread(target=watch, daemon=True).start()
        return run()
    finally:
        # First and without a call: an exception of this kind is raised at calls and at the end of loops. Two may still
        # come, one that was sent before and one that is being sent; hence no loop, and no third.
        over = True
        try:
            settle()
        except TimeLimit:
            try:
                settle()
            except TimeLimit:
                settle()


def signature_problem(function: Callable, inputs: Inputs, expected: str) -> str | None:
    """A sentence if `function` cannot be called with `inputs`, else None. `expected` is the right signature's text."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(**inputs) if isinstance(inputs, Mapping) else signature.bind(*inputs)
    except TypeError as error:
        return f"Your function takes `{signature}`; the exercise calls it with `{expected}` ({error})."
    return None


def is_stub(function: Callable) -> bool:
    """True if the body is empty (docstring, pass, ..., raise NotImplementedError, return None) or cannot be read."""
    import ast
    import textwrap

    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return True
    found = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)), None)
    if found is None:
        return True

    def empty(statement: ast.stmt) -> bool:
        value = getattr(statement, "value", None)
        return (
            isinstance(statement, ast.Pass | ast.Raise)
            or (isinstance(statement, ast.Expr) and isinstance(value, ast.Constant))
            or (isinstance(statement, ast.Return) and (value is None or isinstance(value, ast.Constant)))
        )

    return all(empty(statement) for statement in found.body)


def _place(function: Callable, error: BaseException) -> Place | None:
    """The innermost frame that lies in the file (the cell) of the learner's function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == code.co_filename]
    if not frames:
        return None
    last = frames[-1]
    return Place(last.lineno or 0, (last.line or linecache.getline(last.filename, last.lineno or 0)).strip())


def _mutated(function: Callable, before: Inputs, after: Inputs) -> str | None:
    """The name of the first argument that the function changed, else None."""
    if isinstance(before, Mapping):
        pairs = [(name, before[name], after[name]) for name in before]
    else:
        names = argument_names(function, len(before))
        pairs = list(zip(names, before, after, strict=True))
    for name, one, other in pairs:
        if type(one) is not type(other) or difference(other, one, rel_tol=0.0, abs_tol=0.0):
            return name
    return None


def argument_names(function: Callable, count: int) -> list[str]:
    """Names for `count` positional arguments, from the signature where it has one."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    return [names[i] if i < len(names) else f"argument {i + 1}" for i in range(count)]


class Stopwatch:
    """Seconds left of a budget that several calls share."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return self.end - time.monotonic()
