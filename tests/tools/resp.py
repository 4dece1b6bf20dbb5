"""Cuts a byte stream of RESP2 or RESP3 into its messages, leaving their bytes as they are."""

from __future__ import annotations


class Frames:
    """What was received so far; gives out whole messages only."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, received: bytes) -> list[bytes]:
        """The messages that `received` completes."""
        self._buffer += received
        found: list[bytes] = []
        start = 0
        while start < len(self._buffer) and (end := _end(self._buffer, start)) > 0:
            found.append(bytes(self._buffer[start:end]))
            start = end
        del self._buffer[:start]
        return found


def _end(buffer: bytearray, start: int) -> int:
    """Where the message that begins at `start` ends, or -1 when it is not whole yet."""
    line = buffer.find(b"\r\n", start)
    if line < 0:
        return -1
    kind, after = chr(buffer[start]), line + 2
    if kind in "$=!":
        length = int(buffer[start + 1 : line])
        after += length + 2 if length >= 0 else 0
        return after if after <= len(buffer) else -1
    if kind in "*~>%|":
        parts = max(int(buffer[start + 1 : line]), 0)
        # a map has twice as many messages; an attribute is a map before the message it belongs to
        for _ in range(parts * 2 + (kind == "|") if kind in "%|" else parts):
            after = _end(buffer, after)
            if after < 0:
                return -1
    return after
