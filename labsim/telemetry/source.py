"""Bytes in: files, gzip and standard input as a stream of chunks, in constant memory.

gzip is recognised by its first two bytes, not by the name; a gzip that ends early gives what it held, with a note.
Text in UTF-16 (what PowerShell's `>` writes) is recoded by its byte order mark.
"""

from __future__ import annotations

import codecs
import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import TelemetryError

CHUNK = 1 << 20

Progress = Callable[[int], None]


@contextmanager
def open_source(path: str | Path) -> Iterator[tuple[BinaryIO, str]]:
    """(binary stream, name for messages); `-` is standard input. TelemetryError says in a sentence what is wrong."""
    if str(path) == "-":
        if not hasattr(sys.stdin, "buffer"):  # None where a service closed it, another object in a notebook
            raise TelemetryError("standard input (-) is closed; right is a file, or a pipe into labsim")
        yield sys.stdin.buffer, "standard input"
        return
    name = str(path)
    if not name:
        raise TelemetryError("the name of a file is empty; right is a file, or - for standard input")
    try:
        stream = open(path, "rb")  # noqa: SIM115 - closed by the `with` below, errors are told apart here
    except FileNotFoundError:
        raise TelemetryError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise TelemetryError(f"{name} is a directory; give the files in it") from None
    except PermissionError:
        raise TelemetryError(f"{name}: no permission to read it") from None
    except (OSError, ValueError) as error:
        raise TelemetryError(f"{name} cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    with stream:
        yield stream, name


def chunks(stream: BinaryIO, name: str, notes: list[str], progress: Progress | None = None) -> Iterator[bytes]:
    """Decompressed, recoded chunks. `progress` gets the raw bytes read so far; `notes` what was wrong at the end."""
    counted = _Counted(stream, name, progress)
    head = counted.read(CHUNK)
    if head[:2] == b"\x1f\x8b":
        yield from _recoded(_unzipped(_Rejoined(head, counted), name, notes))
    else:
        yield from _recoded(_plain(head, counted))


class _Counted:
    """A stream that reports how much was read, and says whose bytes cannot be."""

    def __init__(self, stream: BinaryIO, name: str, progress: Progress | None) -> None:
        self.stream, self.name, self.progress, self.done = stream, name, progress, 0

    def read(self, size: int = -1) -> bytes:
        try:
            data = self.stream.read(size) or b""
        except OSError as error:
            raise TelemetryError(f"{self.name} cannot be read: {error.strerror or error}") from None
        self.done += len(data)
        if self.progress is not None:
            self.progress(self.done)
        return data


class _Rejoined:
    """A stream with its first bytes put back; standard input cannot seek."""

    def __init__(self, head: bytes, rest: _Counted) -> None:
        self.head, self.rest = head, rest

    def read(self, size: int = -1) -> bytes:
        if not self.head:
            return self.rest.read(size)
        taken, self.head = (self.head, b"") if size < 0 else (self.head[:size], self.head[size:])
        return taken


def _plain(head: bytes, stream: _Counted) -> Iterator[bytes]:
    data = head
    while data:
        yield data
        data = stream.read(CHUNK)


def _unzipped(stream: _Rejoined, name: str, notes: list[str]) -> Iterator[bytes]:
    archive = gzip.GzipFile(fileobj=stream)  # type: ignore[call-overload]
    while True:
        try:
            data = archive.read1(CHUNK)
        except (EOFError, OSError, zlib.error):
            notes.append("the gzip file is cut or damaged: only what comes before the damage is counted")
            return
        if not data:
            return
        yield data


def _recoded(parts: Iterator[bytes]) -> Iterator[bytes]:
    """UTF-16 becomes UTF-8, a UTF-8 mark is dropped, all else passes unchanged."""
    decoder = None
    for i, part in enumerate(parts):
        if i == 0 and part[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
        if i == 0 and part[:3] == codecs.BOM_UTF8:
            part = part[3:]
        yield decoder.decode(part).encode("utf-8", "replace") if decoder else part
