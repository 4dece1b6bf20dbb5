"""A queue: data in, data out. Enqueue, lease, look, set rules."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Generic, Unpack

from headrace import clock
from headrace.errors import HeadraceError, InvalidInput, OptionError
from headrace.protocol import claiming, codec, ruling
from headrace.protocol.claiming import Want
from headrace.protocol.enqueueing import Enqueued, Item, enqueue_many, enqueue_one
from headrace.protocol.looking import Ref
from headrace.protocol.names import check_id, check_name, content_id, new_id
from headrace.protocol.options import Head, JobOptions, build_head, check_flag, queue_defaults
from headrace.protocol.routing import check_route
from headrace.protocol.steps import Steps, hurried
from headrace.protocol.texts import check_note, shown
from headrace.protocol.times import Duration, duration_ms
from headrace.queues.claim import Claim, Data, packed
from headrace.queues.engine import Engine
from headrace.queues.inputs import check_many, listed, listed_ids
from headrace.queues.job import Job
from headrace.queues.lane import Lane
from headrace.queues.leasing import give_back, lease
from headrace.queues.twins import plain, twin


class _Content:
    """`id=CONTENT`: equal data is the same job."""

    def __repr__(self) -> str:
        return "CONTENT"


CONTENT: Final = _Content()
_ROUND: Final = 2048


class Queue(Lane, Generic[Data]):
    """A named line of jobs. Making one costs nothing; the server knows it from its first job or setting on."""

    def __init__(
        self, engine: Engine, name: str, defaults: Mapping[str, Any] | None = None, data_type: Any = None
    ) -> None:
        super().__init__(engine, check_name(name, "queue"))
        self.name = name
        #: options that jobs of this queue have unless their enqueue says otherwise
        self.defaults: dict[str, Any] = {}
        #: what claims make of the data; None leaves it as it was decoded
        self.data_type: Any = None
        self._data = f"enqueue into {name!r}: data"
        self._preset(defaults or {}, data_type)

    def _preset(self, defaults: Mapping[str, Any], data_type: Any = None) -> None:
        """Lay defaults over those there are, for every enqueue from now on; when one is wrong, all stay as they are."""
        merged = self.defaults | queue_defaults(defaults, self.name)
        usual = build_head({}, merged, self.name)
        if data_type is not None:
            codec.check_kind(data_type, f"queue {self.name!r}")
            self.data_type = data_type
        self.defaults, self._usual = merged, usual

    def lane(self, lane: str, *, route: str | None = None) -> Lane:
        """A lane of this queue, one or two levels deep: "tenant-7" or "tenant-7/nightly"."""
        return Lane(self.engine, self.name, lane, route)

    def job(self, id: str, *, route: str | int | None = None) -> Job:
        """A handle for the job that has this id now; `route` if one was given when it was enqueued."""
        key = check_route(route)
        ring = self.engine.ring
        shard = ring.of_route(key) if key is not None and ring.shards > 1 else ring.of_id(check_id(id))
        return Job(self.engine, Ref(self.name, check_id(id), 0, shard))

    def _item(self, data: Any, head: Head, id: Any, what: str) -> Item:
        payload = codec.encode(data, self.engine.max_payload, what)
        if id is CONTENT:
            id = content_id(codec.canonical(data, payload))
        elif id is not None:
            check_id(id)
        return Item(id, head.lane, head.route, head.packed, payload)

    def _enqueue(self, data: Any = None, **options: Unpack[JobOptions]) -> Steps[Job]:
        """Add one job; with an id that is there already, update it as the update flags say."""
        head = build_head(options, self.defaults, self.name) if options else self._usual
        item = self._item(data, head, options.get("id"), self._data)
        return self._handle((yield from enqueue_one(self.engine.ring, self.name, item, head.if_exists)))

    def _handle(self, done: Enqueued) -> Job:
        return Job(self.engine, Ref(self.name, done.id, done.generation, done.shard), done.outcome)

    def enqueue_many(
        self, data: Iterable[Any], *, ids: Iterable[Any] | None = None, **options: Unpack[JobOptions]
    ) -> list[Job]:
        """Add many jobs with the same options, in calls of at most 256 jobs; each call is atomic, the whole is not.

        `ids` gives an id for each. What was added before an error stays: running the same ids again is safe.
        """
        rounds = self._rounds(data, ids, options)
        return [job for one in rounds for job in self.engine.run(self._enqueue_round(*one))]

    async def aenqueue_many(
        self, data: Iterable[Any], *, ids: Iterable[Any] | None = None, **options: Unpack[JobOptions]
    ) -> list[Job]:
        """The asynchronous `enqueue_many`."""
        jobs: list[Job] = []
        for one in self._rounds(data, ids, options):
            jobs += await self.engine.arun(self._enqueue_round(*one))
        return jobs

    def _rounds(
        self, data: Iterable[Any], ids: Iterable[Any] | None, options: Mapping[str, Any]
    ) -> Iterator[tuple[list[Item], str]]:
        """Encode the jobs, some thousands at a time, so that an endless iterable needs no endless memory."""
        check_many(data, ids, self.name)
        if options.get("id") not in (None, CONTENT):
            raise OptionError("enqueue_many has one id for each job: give ids=[...] or id=CONTENT")
        head = build_head(options, self.defaults, self.name)
        values = iter(data)
        names = iter(ids) if ids is not None else None
        start = 0
        while batch := list(islice(values, _ROUND)):
            given = list(islice(names, len(batch))) if names is not None else [options.get("id")] * len(batch)
            if len(given) != len(batch):
                raise InvalidInput(f"enqueue_many into {self.name!r}: there are more jobs than ids")
            yield self._items(batch, given, head, start), head.if_exists
            start += len(batch)

    def _items(self, values: Sequence[Any], ids: Sequence[Any], head: Head, start: int) -> list[Item]:
        items: list[Item] = []
        try:
            for value, id in zip(values, ids, strict=True):
                items.append(self._item(value, head, id, "data"))
        except InvalidInput as error:
            added = f"the first {start:,} were added" if start else "nothing was sent"
            where = f"enqueue_many into {self.name!r}, job {start + len(items):,} counted from 0 ({added})"
            raise type(error)(f"{where}: {error}") from error.__cause__
        return items

    def _enqueue_round(self, items: list[Item], if_exists: str) -> Steps[list[Job]]:
        done = yield from enqueue_many(self.engine.ring, self.name, items, if_exists)
        return [self._handle(one) for one in done]

    def _cancel(self, id: str, running: bool = False, *, why: str = "", route: str | int | None = None) -> Steps[bool]:
        """Cancel a waiting job (and its held twin); with `running` also tell its worker to stop."""
        shard = self.job(id, route=route)._ref.shard  # pyright: ignore[reportPrivateUsage]
        letters = yield from ruling.cancel(
            self.name, [id], check_flag(running, "running"), check_note(why, "why"), shard
        )
        return letters != "-"

    def _lease(self, seconds: Duration, n: int = 1, wait: Duration | None = 0) -> Steps[list[Claim[Data]]]:
        """Claim up to n jobs for `seconds`; when there is none wait up to `wait` seconds (None: for ever)."""
        ms = duration_ms(seconds, "seconds")
        if ms < 1:
            raise OptionError(f"seconds={shown(seconds)}: a lease must last at least a millisecond")
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= 10_000:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"n={shown(n)}: expected a whole number from 1 to 10,000")
        ends = None if wait is None else clock.monotonic() + duration_ms(wait, "wait") / 1000
        want = Want(n, [self.name], lease_ms=ms, waiter=new_id(0))
        taken = yield from lease(self.engine, want, self.shards, ends)
        return [Claim(self.engine, job, asked + ms / 1000, self.data_type) for asked, job in taken]

    def _complete_many(self, claims: Iterable[Claim[Any]], results: Iterable[Any] | None = None) -> Steps[list[bool]]:
        """Complete many claims in few calls; True for each that was still current."""
        claims = listed(claims, "claims", "claims, as lease() answers them")
        given = listed(results, "results", "results") if results is not None else [None] * len(claims)
        if len(given) != len(claims):
            raise InvalidInput(f"complete_many got {len(claims)} claims and {len(given)} results")
        for claim in claims:
            if not isinstance(claim, Claim):
                raise InvalidInput(f"complete_many of queue {self.name!r}: {shown(claim)} is no claim; see lease()")
        by_shard: dict[int, list[int]] = {}
        for i, claim in enumerate(claims):
            by_shard.setdefault(claim.shard, []).append(i)
        ends = [claim.end("c", packed(claim, result, "result")) for claim, result in zip(claims, given, strict=True)]
        done = [False] * len(claims)
        for shard, places in by_shard.items():
            bulk = sum(claims[i].size for i in places)
            letters = yield from claiming.finish([ends[i] for i in places], shard, bulk=bulk)
            for i, letter in zip(places, letters, strict=True):
                done[i] = letter == claiming.COMPLETED
        return done

    def _retry_failed(self, ids: Iterable[str] | None = None, *, limit: int | None = None) -> Steps[int]:
        """Put dead letters back in line with fresh counts: those named, else all or the oldest `limit`."""
        return (yield from self._dead_letters("replay", ids, limit))

    def _drop_failed(self, ids: Iterable[str] | None = None, *, limit: int | None = None) -> Steps[int]:
        """Delete dead letters: those named, else all or the oldest `limit`."""
        return (yield from self._dead_letters("drop", ids, limit))

    def _dead_letters(self, what: str, ids: Iterable[str] | None, limit: int | None) -> Steps[int]:
        named = None if ids is None else listed_ids(ids)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"limit={shown(limit)}: expected a whole number from 0 on, or None for all")
        done = 0
        for shard in self.shards:
            rest = None if limit is None else limit - done
            done += yield from ruling.replay(self.name, named, what, shard, rest)
        return done

    enqueue, aenqueue = plain(_enqueue), twin(_enqueue)
    cancel, acancel = plain(_cancel), twin(_cancel)
    lease, alease = plain(_lease), twin(_lease)
    complete_many, acomplete_many = plain(_complete_many), twin(_complete_many)
    retry_failed, aretry_failed = plain(_retry_failed), twin(_retry_failed)
    drop_failed, adrop_failed = plain(_drop_failed), twin(_drop_failed)

    def _hand_back(self, claims: Iterable[Claim]) -> Steps[None]:
        """Claims that nobody was given are for others at once, uncounted."""
        yield from hurried(give_back(claim._claimed for claim in claims))  # pyright: ignore[reportPrivateUsage]

    _return, _areturn = plain(_hand_back), twin(_hand_back)

    def leases(self, seconds: Duration, n: int = 1) -> Iterator[Claim[Data]]:
        """Claims one after the other, for ever: `for claim in q.leases(30): ...`.

        They are fetched up to `n` at a time; those that were not handed out when the loop is left go back.
        """
        while True:
            rest = deque(self.lease(seconds, n, None))
            try:
                while rest:
                    yield rest.popleft()
            finally:
                if rest:
                    with suppress(HeadraceError):  # whoever leaves need not know: they run out by themselves
                        self._return(rest)

    async def aleases(self, seconds: Duration, n: int = 1) -> AsyncIterator[Claim[Data]]:
        """The asynchronous `leases`; `contextlib.aclosing` makes claims go back before the loop is left."""
        while True:
            rest = deque(await self.alease(seconds, n, None))
            try:
                while rest:
                    yield rest.popleft()
            finally:
                if rest:
                    with suppress(HeadraceError):
                        await self._areturn(rest)
