"""Asks whatever listens on the folder's socket who it is. A record, a pid or a socket file alone proves nothing."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import hiredis

from headrace.server.embedded_folder import Folder

ANSWER_WITHIN = 1.0  # seconds; a server that is busy for longer is asked again
QUESTIONS = b"PING\r\nCONFIG GET proc-title-template\r\nINFO server\r\n"


@dataclass(frozen=True, slots=True)
class Seen:
    """The server of this folder, found alive; while `loading` it reads its data and serves nobody yet."""

    address: str
    pid: int
    loading: bool


def look(folder: Folder) -> Seen | None:
    """The living server of the folder's record, or None: nobody there, a stranger, or no answer in time."""
    record = folder.record()
    if record is None:
        return None
    address = folder.address(record)
    try:
        pong, title, info = _ask(address)
    except (OSError, hiredis.ProtocolError):
        return None
    if f"headrace:{record.instance}" not in str(title) or not isinstance(info, bytes):
        return None
    pid = next(line for line in info.splitlines() if line.startswith(b"process_id:"))
    return Seen(address, int(pid.partition(b":")[2]), loading=isinstance(pong, hiredis.ReplyError))


def _ask(address: str) -> list[object]:
    """The answers to all questions in one round trip, errors among them as values."""
    reader = hiredis.Reader()
    replies: list[object] = []
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_WITHIN)
        connection.connect(address)
        connection.sendall(QUESTIONS)
        while len(replies) < QUESTIONS.count(b"\n"):
            received = connection.recv(1 << 16)
            if not received:
                raise ConnectionResetError(f"{address} hung up")
            reader.feed(received)
            while (reply := reader.gets()) is not False:
                replies.append(reply)
    return replies
