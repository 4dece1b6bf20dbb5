"""How effects become moves: packing, numbering, retries, loading the library. Shared by both transports.

A `Courier` drives the steps of an operation and yields what must happen on the wire. What it promises:
numbered and read-only calls are repeated after a lost reply, with the same number, until `retry_for` seconds have
passed; a plain call is repeated only when it surely was not run. What stays lost becomes `ServerUnavailable`.
A call that a broken shard refused is sent once more, when the shard has been mended: nothing else is repeated then.
"""

from __future__ import annotations

import random
import secrets
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from headrace import clock
from headrace.errors import HeadraceError, ServerUnavailable
from headrace.protocol import keys
from headrace.protocol.steps import Block, Call, Channel, Command, Effect, Listen, Steps, hurried
from headrace.server import refusals
from headrace.server.crashpoint import crash_point
from headrace.server.endpoint import Endpoint
from headrace.server.moves import (
    PENDING,
    Hear,
    Lost,
    Moves,
    Part,
    Pause,
    Refusal,
    Send,
    SendMany,
    Tune,
    Wait,
    pack,
)
from headrace.server.patience import Patience, unavailable
from headrace.server.refusals import Remedy
from headrace.server.topology import Topology

R = TypeVar("R")

#: What mends broken shards: an operation that is told why calls were refused, an error of each kind.
Mending: TypeAlias = Callable[[Collection[HeadraceError]], Steps[None]]

#: No reply, or a refusal: a tuple, because checking against a union that is made each time is slow.
TROUBLE: Final = (Lost, Refusal)
#: Commands of the server itself meet no shard that could be mended.
FINAL: Final = (Remedy.NONE, Remedy.MEND)
#: A listener reads again this often, in case its message went by while the server changed.
RELOOK: Final = 5.0
#: Seconds of trouble after which a hurried call is given up.
HURRY: Final = 1.0
#: A wait is ended in time from here; the server ends it this much later, should we be gone.
LONGER: Final = 0.5
#: BLPOP counts in milliseconds, and 0 means for ever.
SHORTEST_BLOCK: Final = 0.001


class FunctionLibrary(Protocol):
    """What is called on the server: a library of functions by its hash."""

    @property
    def name(self) -> str:
        """The library's name."""
        ...

    @property
    def source(self) -> str:
        """The text that FUNCTION LOAD takes."""
        ...

    def function(self, name: str) -> str:
        """The full name of one of its functions."""
        ...


@dataclass(slots=True, eq=False)
class _Parcel:
    call: Call
    packed: bytes
    lent: Channel | None
    sent_to: Endpoint | None = None
    mended: bool = False
    doubtful: bool = False

    @property
    def repeatable(self) -> bool:
        return self.call.numbered or self.call.readonly


class Courier:
    """Turns the effects of operations into moves; one for each site, used by all its threads and loops."""

    def __init__(self, topology: Topology, library: FunctionLibrary, namespace: str, retry_for: float) -> None:
        self.topology = topology
        self._library = library
        self._namespace = namespace
        self._retry_for = retry_for
        self._channels: deque[Channel] = deque()
        self._heads: dict[tuple[str, int], tuple[str, str, str, str]] = {}
        self._mending: Mending | None = None
        self._mender: Courier | None = None
        #: Why nothing is done any more, for people; "" while it is open.
        self.closed = ""

    def close(self, why: str) -> None:
        """Do nothing any more, but for those who leave: their hurried calls go out, once."""
        self.closed = why
        if self._mender is not None:
            self._mender.close(why)

    def mend_with(self, mending: Mending) -> None:
        """From now on, have broken shards mended by that."""
        self._mending = mending
        # The calls of the mending itself are not mended: a shard that stays broken is an error.
        self._mender = Courier(self.topology, self._library, self._namespace, self._retry_for)

    def forget_channels(self) -> None:
        """A forked child numbers its calls on channels of its own."""
        self._channels = deque()

    def operate(self, steps: Steps[R]) -> Moves[R]:
        """Drive an operation to its result; what fails is thrown into it, as the seam promises."""
        try:
            effect = next(steps)
            while True:
                try:
                    answer = yield from self.perform(effect)
                except GeneratorExit:
                    steps.close()
                    raise
                except BaseException as error:  # an interrupt too: the operation may have something to give back
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as stop:
            return stop.value

    def perform(self, effect: Effect) -> Moves[Any]:
        """Run one effect."""
        if self.closed and not _farewell(effect):
            raise ServerUnavailable(self.closed)
        if isinstance(effect, Call):
            return self.call(effect)
        if isinstance(effect, list):
            return self.calls(effect)
        if isinstance(effect, Command):
            return self.ask(effect.shard, *effect.words)
        return self.block(effect) if isinstance(effect, Block) else self.listen(effect)

    def call(self, call: Call) -> Moves[Any]:
        """One call; its reply or its typed error."""
        return self._one(self._wrap(call))

    def ask(self, shard: int, *words: str) -> Moves[Any]:
        """A command of the server itself that only reads, on the primary of a shard."""
        return self._one(_Parcel(Call(words[0], shard, readonly=True), pack(*words), None))

    def _one(self, parcel: _Parcel) -> Moves[Any]:
        seen = self.topology.version
        shard = parcel.call.shard
        endpoint = parcel.sent_to = self.topology.endpoint(shard)
        crash_point(parcel.call.function, "send")
        if endpoint is None:
            reply: Any = _nobody(shard)
        else:
            reply = yield Send(endpoint, parcel.packed, not parcel.repeatable)
        if isinstance(reply, TROUBLE):
            replies: list[Any] = [reply]
            yield from self._insist([parcel], replies, seen)
            reply = replies[0]
        crash_point(parcel.call.function, "replied")
        self._take_back(parcel, reply)
        if isinstance(reply, TROUBLE):
            raise self._error(parcel, reply)
        return reply

    def calls(self, calls: Sequence[Call]) -> Moves[list[Any]]:
        """Many calls, pipelined; the first error is raised after all replies have been read."""
        parcels = [self._wrap(call) for call in calls]
        replies: list[Any] = [None] * len(parcels)
        for parcel in parcels:
            crash_point(parcel.call.function, "send")
        for indexes in _rounds(parcels):
            seen = self.topology.version
            yield from self._send(parcels, replies, indexes)
            yield from self._insist(parcels, replies, seen, indexes)
        for parcel, reply in zip(parcels, replies, strict=True):
            crash_point(parcel.call.function, "replied")
            self._take_back(parcel, reply)
        for parcel, reply in zip(parcels, replies, strict=True):
            if isinstance(reply, TROUBLE):
                raise self._error(parcel, reply)
        return replies

    def block(self, effect: Block) -> Moves[bool]:
        """Wait for a token. A lost connection counts as one: whoever waits looks again."""
        seconds = max(effect.seconds, SHORTEST_BLOCK)
        seen = self.topology.version
        lists: dict[object, tuple[Endpoint, list[str]]] = {}
        reply: Any = None
        for shard, key in effect.keys.items():
            endpoint = self.topology.endpoint(shard)
            if endpoint is None:
                reply = _nobody(shard)
                continue
            # Keys of one BLPOP must share a slot; without a cluster, one wait serves all shards of a server.
            group = (endpoint, shard if self.topology.is_cluster else None)
            lists.setdefault(group, (endpoint, []))[1].append(key)
        patience = f"{seconds + LONGER:.3f}"
        parts = [Send(where, pack("BLPOP", *names, patience), True) for where, names in lists.values()]
        replies: list[Any] = (yield Wait(parts, seconds)) if reply is None else [reply]
        if self.closed:
            raise ServerUnavailable(self.closed)
        troubles = [reply for reply in replies if isinstance(reply, TROUBLE)]
        for reply in troubles:
            if _remedy(reply) in FINAL:
                raise _plain_error(reply, parts[replies.index(reply)].endpoint, "BLPOP")
        if troubles:
            yield Pause(random.uniform(0.05, 0.15))
            yield from self.topology.refresh(seen, _failed(troubles[0]))
            return True
        return any(reply is not None and reply is not PENDING for reply in replies)

    def listen(self, effect: Listen) -> Moves[Any]:
        """Subscribe, read, wait for the message; read again after each reconnect and every `RELOOK` seconds."""
        until = clock.monotonic() + effect.seconds
        while True:
            seen = self.topology.version
            endpoint = self.topology.endpoint(effect.shard)
            ear: Any = (yield Tune(endpoint, effect.channel)) if endpoint else _nobody(effect.shard)
            if self.closed:
                if not isinstance(ear, TROUBLE):
                    ear.close()
                raise ServerUnavailable(self.closed)
            if isinstance(ear, Refusal) and _remedy(ear) in FINAL and endpoint:
                raise _plain_error(ear, endpoint, "SUBSCRIBE")
            if isinstance(ear, TROUBLE):
                yield Pause(random.uniform(0.05, 0.15))
                yield from self.topology.refresh(seen, _failed(ear))
                heard: Any = ear
                reply = yield from self.call(effect.armed)
            else:
                try:
                    reply, heard = yield from self._attend(effect, ear, until)
                finally:
                    ear.close()
            if reply is not None:
                return reply
            if not isinstance(heard, TROUBLE):
                return heard
            if self.closed:
                raise ServerUnavailable(self.closed)
            if clock.monotonic() >= until:
                return None

    def _attend(self, effect: Listen, ear: Any, until: float) -> Moves[tuple[Any, Any]]:
        """Read and wait in turns; answers what was read, and what was heard."""
        while True:
            reply = yield from self.call(effect.armed)
            left = until - clock.monotonic()
            if reply is not None or left <= 0:
                return reply, None
            heard = yield Hear(ear, min(left, RELOOK))
            if heard is not None:
                return None, heard

    def load(self, endpoint: Endpoint) -> Moves[bool]:
        """Load the library on one server; False when that cannot be done just now."""
        reply = yield Send(endpoint, pack("FUNCTION", "LOAD", self._library.source))
        if isinstance(reply, Refusal) and "already exists" not in reply.text and _remedy(reply) in FINAL:
            raise refusals.error_of(reply.text, endpoint.where, "FUNCTION LOAD")
        return not isinstance(reply, TROUBLE) or (isinstance(reply, Refusal) and "already exists" in reply.text)

    def _wrap(self, call: Call) -> _Parcel:
        head = self._heads.get((call.function, call.shard))
        if head is None:
            meta = keys.meta(self._namespace, call.shard)
            head = ("FCALL", self._library.function(call.function), "1", meta)
            self._heads[call.function, call.shard] = head
        if not call.numbered:
            return _Parcel(call, pack(*head, *call.args), None)
        lent = None
        channel = call.channel
        if channel is None:
            try:
                channel = lent = self._channels.pop()
            except IndexError:
                channel = lent = Channel(secrets.token_urlsafe(12))
        return _Parcel(call, pack(*head, channel.id, channel.next(), *call.args), lent)

    def _take_back(self, parcel: _Parcel, reply: object) -> None:
        # A channel whose call may still be on its way is not lent again: its next number could arrive first.
        if parcel.lent is not None and not isinstance(reply, Lost):
            self._channels.append(parcel.lent)

    def _send(self, parcels: list[_Parcel], replies: list[Any], indexes: Sequence[int]) -> Moves[None]:
        """Send these parcels, each to the primary of its shard, and put down their replies."""
        groups: dict[tuple[Endpoint, bool], list[int]] = {}
        for i in indexes:
            parcel = parcels[i]
            endpoint = parcel.sent_to = self.topology.endpoint(parcel.call.shard)
            if endpoint is None:
                replies[i] = _nobody(parcel.call.shard)
            else:
                groups.setdefault((endpoint, not parcel.repeatable), []).append(i)
        parts = [Part(where, [parcels[i].packed for i in group], wary) for (where, wary), group in groups.items()]
        answers: list[list[Any]] = (yield SendMany(parts)) if parts else []
        for group, answer in zip(groups.values(), answers, strict=True):
            for i, reply in zip(group, answer, strict=True):
                replies[i] = reply

    def _insist(
        self, parcels: list[_Parcel], replies: list[Any], seen: int, among: Sequence[int] = (0,)
    ) -> Moves[None]:
        """Mend and send again what may be sent again, until all is answered or patience ends."""
        patience: Patience | None = None
        loaded: set[Endpoint] = set()
        while True:
            for i in among:
                reply = replies[i]
                if isinstance(reply, Lost) and reply.sent:
                    parcels[i].doubtful = True
            todo = {i: cure for i in among if (cure := self._cure(parcels[i], replies[i], loaded)) is not Remedy.NONE}
            if not todo or self.closed:
                return
            rushed = all(parcels[i].call.hurried for i in todo)
            patience = patience or Patience(min(HURRY, self._retry_for) if rushed else self._retry_for)
            homeless = {where for i, cure in todo.items() if cure is Remedy.LOAD and (where := parcels[i].sent_to)}
            broken = [i for i, cure in todo.items() if cure is Remedy.MEND]
            if broken:
                yield from self._mend([(parcels[i], replies[i]) for i in broken], rushed)
            fresh = bool(broken)
            for where in homeless:
                if (yield from self.load(where)):
                    loaded.add(where)
                    fresh = True
            if not fresh:
                pause = patience.pause()
                if pause is None:
                    return
                if pause:
                    yield Pause(pause)
            moved = next((replies[i] for i, cure in todo.items() if cure is Remedy.MOVE), None)
            if moved is not None:
                yield from self.topology.refresh(seen, _failed(moved))
            seen = self.topology.version
            yield from self._send(parcels, replies, list(todo))

    def _cure(self, parcel: _Parcel, reply: object, loaded: set[Endpoint]) -> Remedy:
        if not isinstance(reply, TROUBLE):
            return Remedy.NONE
        if isinstance(reply, Lost) and reply.sent and not parcel.repeatable:
            return Remedy.NONE
        remedy = _remedy(reply)
        if remedy is Remedy.MEND:
            return Remedy.NONE if parcel.mended or self._mending is None else remedy
        # The library that was just loaded there has no such function: it will not grow one.
        return Remedy.NONE if remedy is Remedy.LOAD and parcel.sent_to in loaded else remedy

    def _mend(self, broken: list[tuple[_Parcel, Refusal]], rushed: bool) -> Moves[None]:
        """Have the shards mended that refused these calls; a call may ask for that once."""
        errors: dict[type[HeadraceError], HeadraceError] = {}
        for parcel, refusal in broken:
            parcel.mended = True
            error = self._error(parcel, refusal)
            errors.setdefault(type(error), error)
        if self._mending is not None and self._mender is not None:
            steps = self._mending(errors.values())
            yield from self._mender.operate(hurried(steps) if rushed else steps)

    def _error(self, parcel: _Parcel, reply: Lost | Refusal) -> HeadraceError:
        what = parcel.call.function
        doubt = ""
        if parcel.doubtful and not parcel.call.readonly:
            doubt = f"; {what} was sent and its reply was lost: it may or may not have been done"
        if self.closed and _remedy(reply) not in FINAL:
            return ServerUnavailable(self.closed + doubt)
        error = _plain_error(reply, parcel.sent_to, what)
        if doubt and isinstance(error, ServerUnavailable):
            cause, error = error.__cause__, ServerUnavailable(f"{error}{doubt}")
            error.__cause__ = cause
        return error


def _farewell(effect: Effect) -> bool:
    """Whether somebody sends this who leaves."""
    calls = effect if isinstance(effect, list) else [effect]
    return all(isinstance(call, Call) and call.hurried for call in calls)


def _remedy(reply: Lost | Refusal) -> Remedy:
    if isinstance(reply, Refusal):
        return refusals.remedy(reply.text)
    return Remedy.NONE if reply.final else Remedy.MOVE


def _failed(reply: Lost | Refusal) -> Endpoint | None:
    return reply.endpoint if isinstance(reply, Lost) else None


def _plain_error(reply: Lost | Refusal, endpoint: Endpoint | None, what: str) -> HeadraceError:
    where = endpoint.where if endpoint else "the server"
    if isinstance(reply, Refusal):
        return refusals.error_of(reply.text, where, what)
    return reply.final or unavailable(reply, what)


def _nobody(shard: int) -> Lost:
    return Lost(None, ConnectionError(f"no primary serves shard {shard} now"), False)


def _rounds(parcels: list[_Parcel]) -> list[list[int]]:
    """Indexes to send together: calls of one channel on one shard go one after the other, all else at once."""
    rounds: list[list[int]] = []
    turn: dict[tuple[int, int], int] = {}
    for i, parcel in enumerate(parcels):
        at = 0
        if parcel.call.channel is not None and parcel.call.numbered:
            line = (id(parcel.call.channel), parcel.call.shard)
            at = turn.get(line, 0)
            turn[line] = at + 1
        while len(rounds) <= at:
            rounds.append([])
        rounds[at].append(i)
    return rounds
