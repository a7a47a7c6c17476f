"""The scanner: chunks in, the few lines that matter out, one pass, constant memory.

Almost no line of a log is telemetry. Chunks are searched as bytes for a handful of short anchors (`bytes.find`, a
gigabyte per second each); only the lines around a hit are decoded and shown to the readers, and each reader looks
again with its own pattern. A reader in the middle of a wrapped line or a block asks for the lines that follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .reader import LONGEST_LINE, LineReader

# Every line that any reader wants holds one of these. `ccept` covers accept, Accepted, acceptance, accepted_tokens;
# `pecDec` SpecDecoding and specDecodingStats; `raft` draft, drafts, Draft.
ANCHORS = (
    b"ccept",
    b"raft",
    b"spec_",
    b"pecDec",
    b"fficiency",
    b"Benchmark Result",
    b" TTFT (ms)",
    b"Engine 0",
    b"acc per pos",
    b"] AVERAGE",
    b"num_spec",
)
_LONGEST_CARRY = 8 << 20
_METRICS_HEAD = re.compile(rb"^# (?:HELP|TYPE) ", re.MULTILINE)


class Scanner:
    """Feeds lines to readers."""

    def __init__(self, readers: list[LineReader]) -> None:
        self.readers = readers
        self.carry: list[bytes] = []
        self.carried = 0
        self.every_line = False
        self.first_block = True
        self.nul = self.size = 0
        self.long_lines = 0
        self.head = b""

    def start_file(self, label: str | None) -> None:
        self.carry, self.carried, self.first_block, self.every_line = [], 0, True, False
        self.nul = self.size = 0
        self.head = b""
        for reader in self.readers:
            reader.start_file(label)

    def feed(self, chunk: bytes) -> None:
        """A chunk of any size; lines are completed across chunks."""
        self.size += len(chunk)
        if len(self.head) < 65536:
            self.head += chunk[: 65536 - len(self.head)]
        end = chunk.rfind(b"\n") + 1
        if end == 0:
            self.carry.append(chunk)
            self.carried += len(chunk)
            if self.carried > _LONGEST_CARRY:
                # No line of telemetry is that long; what was cut off here is at most one line.
                self.long_lines += 1
                self._block(b"".join(self.carry))
                self.carry, self.carried = [], 0
            return
        block = b"".join([*self.carry, chunk[:end]]) if self.carry else chunk[:end]
        rest = chunk[end:]
        self.carry, self.carried = ([rest], len(rest)) if rest else ([], 0)
        self._block(block)

    def end_file(self) -> None:
        if self.carry:
            self._block(b"".join(self.carry))
            self.carry, self.carried = [], 0
        for reader in self.readers:
            reader.end_file()

    def binary(self) -> bool:
        """Whether the start of the file is not text: many control bytes, or hardly any of it decodes."""
        if not self.head:
            return False
        control = sum(self.head.count(bytes([i])) for i in range(32) if i not in (9, 10, 12, 13, 27))
        undecodable = self.head.decode("utf-8", "replace").count("�")
        return (control + undecodable) > len(self.head) * 0.05

    def _block(self, block: bytes) -> None:
        if self.first_block:
            self.first_block = False
            self.every_line = _METRICS_HEAD.search(block[:4096]) is not None
        if self.every_line:
            for line in block.split(b"\n"):
                self._line(line)
            return
        for line in self._hits(block):
            self._line(line)

    def _hits(self, block: bytes) -> Iterator[bytes]:
        """Lines with an anchor, and the lines after one while a reader collects."""
        found = {anchor: block.find(anchor) for anchor in ANCHORS}
        place = 0
        while place < len(block):
            if any(reader.collecting for reader in self.readers):
                start = place
            else:
                next_hit = -1
                for anchor, where in found.items():
                    if 0 <= where < place:
                        where = found[anchor] = block.find(anchor, place)
                    if where >= 0 and (next_hit < 0 or where < next_hit):
                        next_hit = where
                if next_hit < 0:
                    return
                start = block.rfind(b"\n", place, next_hit) + 1 or place
            end = block.find(b"\n", start)
            end = len(block) if end < 0 else end
            yield block[start:end]
            place = end + 1

    def _line(self, raw: bytes) -> None:
        # A progress bar rewrites its line with carriage returns; what matters stands behind one of them.
        parts = raw.split(b"\r") if b"\r" in raw else [raw]
        for part in parts[-64:]:
            if not part and len(parts) > 1:
                continue
            text = part[: 256 * LONGEST_LINE].decode("utf-8", "replace")
            short = text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE]
            for reader in self.readers:
                if reader.collecting or reader.wants.search(short):
                    reader.line(text if reader.takes_long_lines else short)
