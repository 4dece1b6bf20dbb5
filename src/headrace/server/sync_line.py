"""One blocking connection: packed commands out, replies in, in order."""

from __future__ import annotations

import select
import socket
import ssl
import struct
from contextlib import suppress
from typing import Any

from headrace.server.dial import dial
from headrace.server.endpoint import Endpoint
from headrace.server.moves import NOT_YET, new_reader

_BUFFER = 65536


class Line:
    """One connection, used by one thread at a time; any OSError means that it is to be closed."""

    __slots__ = ("_buffer", "_reader", "_sock", "endpoint")

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._sock: socket.socket = dial(endpoint)
        self._reader = new_reader()
        self._buffer = bytearray(_BUFFER)
        self.within(endpoint.reply_timeout)

    def fileno(self) -> int:
        """For selectors."""
        return self._sock.fileno()

    def within(self, seconds: float) -> None:
        """Reads and writes give up after that long."""
        if isinstance(self._sock, ssl.SSLSocket):
            self._sock.settimeout(seconds)
            return
        # A timeout kept by the kernel saves a poll before each read and each write.
        self._sock.settimeout(None)
        value = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)

    def send(self, packed: bytes) -> None:
        """Send packed commands."""
        try:
            self._sock.sendall(packed)
        except BlockingIOError:
            raise TimeoutError("the server did not take the request in time") from None

    def receive(self) -> Any:
        """The next reply; a `Refusal` is a reply."""
        reply = self._reader.gets()
        while reply is NOT_YET:
            try:
                self._feed()
            except BlockingIOError:
                raise TimeoutError("the server did not reply in time") from None
            reply = self._reader.gets()
        return reply

    def glance(self) -> Any:
        """The next reply if it is there, else `NOT_YET`: called when the socket looks readable."""
        reply = self._reader.gets()
        timeout = self._sock.gettimeout()
        self._sock.setblocking(False)
        try:
            while reply is NOT_YET:
                self._feed()
                reply = self._reader.gets()
        except (BlockingIOError, ssl.SSLWantReadError):
            pass  # part of a reply, or a message of TLS itself
        finally:
            self._sock.settimeout(timeout)
        return reply

    def alive(self) -> bool:
        """Whether nothing has come that nobody asked for: the end of the connection, as a rule."""
        poller = select.poll()
        poller.register(self._sock, select.POLLIN)
        return not poller.poll(0)

    def hang_up(self) -> None:
        """End the connection under whoever waits for a reply on it in another thread; that one closes it."""
        with suppress(OSError):
            # Not TLS's own way, which would take the session away from its reader.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        with suppress(OSError):
            self._sock.close()

    def __del__(self) -> None:
        # An interrupt can lose a line between two statements; its end is not worth a warning.
        if hasattr(self, "_sock"):
            self.close()

    def _feed(self) -> None:
        size = self._sock.recv_into(self._buffer)
        if size == 0:
            raise ConnectionResetError("the server closed the connection")
        self._reader.feed(self._buffer, 0, size)  # pyright: ignore[reportArgumentType] - any buffer will do
