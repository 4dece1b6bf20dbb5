"""`Headrace`: the one object a user makes. It knows the server, the queues and their settings."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final, Self, Unpack, cast, overload

from headrace.errors import OptionError, ServerUnfit, ShardMismatch
from headrace.protocol import auditing, histories, looking, ruling, versions
from headrace.protocol.histories import Cursor, Event, EventPage
from headrace.protocol.names import check_name, check_namespace, failure_queue
from headrace.protocol.options import FailureOptions, QueueDefaults, check_flag
from headrace.protocol.steps import Steps
from headrace.protocol.texts import shown
from headrace.queues.claim import Data
from headrace.queues.engine import Engine
from headrace.queues.lane import Lane, TaskRules
from headrace.queues.queue import Queue
from headrace.queues.settings import Counts, LaneSettings, failure_letters, lane_letters, read_counts
from headrace.queues.twins import plain, twin
from headrace.server.connect import Site, open_site
from headrace.server.library import library

log: Final = logging.getLogger("headrace")

_LEVELS: Final = ("memory", "everysec", "always", "replicated")


class Headrace:
    """Connects to a server, or starts one in `./.headrace` when neither `url` nor HEADRACE_URL names one.

    `connection` takes an existing redis-py client or pool instead of a URL. `folder` starts or joins the embedded
    server of that folder, whatever HEADRACE_URL and HEADRACE_DIR say. `shards` is fixed when the namespace
    is first used; later it is checked, and None takes what is there. `durability` names the least the server must
    promise: "memory", "everysec", "always" or "replicated". All keys begin with `namespace`. Data and results
    have at most `max_payload` bytes.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        connection: object | None = None,
        shards: int | None = None,
        durability: str | None = None,
        namespace: str = "hr",
        folder: str | os.PathLike[str] | None = None,
        max_payload: int = 1 << 20,
    ) -> None:
        _check_level(durability)
        check_namespace(namespace)
        if url is not None and not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(
                f"url={shown(url)}: expected a text such as 'redis://localhost:6379/0'; a client is connection="
            )
        site = open_site(url, connection=connection, namespace=namespace, folder=_home(folder))
        self._stand_on(site, shards, durability, max_payload)

    @classmethod
    def at_site(
        cls, site: Site, *, shards: int | None = None, durability: str | None = None, max_payload: int = 1 << 20
    ) -> Self:
        """On a site that is open already, in whatever way it was opened; closing this closes it."""
        app = cls.__new__(cls)
        app._stand_on(site, shards, durability, max_payload)
        return app

    def _stand_on(self, site: Site, shards: int | None, durability: str | None, max_payload: int) -> None:
        try:
            _check_level(durability)
            if type(max_payload) is not int or not 0 < max_payload <= 1 << 26:
                raise OptionError(f"max_payload={shown(max_payload)}: expected bytes, from 1 to {1 << 26:,} (64 MiB)")
            _check_durability(durability, site.durability)
            self._engine = Engine(site, shards, max_payload)
        except ShardMismatch as error:
            site.close()
            raise ShardMismatch(
                f"{error} (namespace {site.namespace!r} of {site.where}): the number is fixed when a namespace is "
                "first used; leave shards= out to take what is there, or use another namespace="
            ) from None
        except BaseException:
            site.close()
            raise
        self._queues: dict[str, Queue[Any]] = {}
        self._failure_options: dict[str, dict[str, Any]] = {}

    def __repr__(self) -> str:
        return f"<Headrace {self._engine.site.where}>"

    @property
    def engine(self) -> Engine:
        """What operations run on."""
        return self._engine

    @property
    def url(self) -> str:
        """The URL of the server: another process that gets it works on the same queues."""
        return self._engine.site.url

    @property
    def where(self) -> str:
        """Where the server is, for people; passwords masked."""
        return self._engine.site.where

    @property
    def durability(self) -> str:
        """What the server promises about acknowledged writes."""
        return self._engine.site.durability

    @property
    def shards(self) -> int:
        """The number of shards of this namespace."""
        return self._engine.ring.shards

    @property
    def epochs(self) -> tuple[str, ...]:
        """The epoch of each shard: it changes when the server lost its data and a shard was made anew."""
        return self._engine.ground.epochs

    @overload
    def queue(
        self,
        name: str,
        *,
        data_type: type[Data],
        failure_options: FailureOptions | None = None,
        **defaults: Unpack[QueueDefaults],
    ) -> Queue[Data]: ...

    @overload
    def queue(
        self,
        name: str,
        *,
        data_type: Any = None,
        failure_options: FailureOptions | None = None,
        **defaults: Unpack[QueueDefaults],
    ) -> Queue[Any]: ...

    def queue(
        self,
        name: str,
        *,
        data_type: Any = None,
        failure_options: FailureOptions | None = None,
        **defaults: Unpack[QueueDefaults],
    ) -> Queue[Any]:
        """The queue of that name; `defaults` are options its jobs have unless their enqueue says otherwise.

        The same name answers the same queue: what is given later is laid over what was given before, and holds for
        all that use it. `data_type` converts what claims read: a dataclass, a msgspec struct, a pydantic model or any
        type that msgspec knows.
        """
        known = self._queues.get(check_name(name, "queue"))
        letters = None if failure_options is None else failure_letters(failure_options, name)
        if known is None:
            known = self._queues.setdefault(name, Queue(self._engine, name, defaults, data_type))
        elif defaults or data_type is not None:
            known._preset(defaults, data_type)  # pyright: ignore[reportPrivateUsage]
        if letters is not None:
            self._failure_options[name] = letters
        return known

    def _lane(
        self, lane: str, *, queue: str, route: str | None = None, forget: bool = False, **settings: Unpack[LaneSettings]
    ) -> Steps[Lane]:
        """Set up a lane at run time and answer it; `forget=True` takes all its settings back."""
        made = Lane(self._engine, self.queue(queue).name, lane, route)
        if check_flag(forget, "forget") and settings:
            raise OptionError(f"lane {made.path!r}: forget=True takes all settings back: give no others with it")
        letters = lane_letters(settings, f"lane {made.path!r}")
        yield from ruling.set_lane(made.path, {"forget": True} if forget else letters, made.shards)
        return made

    def task_rules(self, task: str) -> TaskRules:
        """Pause and block of one task."""
        return TaskRules(self._engine, task)

    def _failure_jobs(self, queue: str, on: bool = True) -> Steps[None]:
        """Have every job that fails in a queue enqueued into `<queue>-fail`, by the very call that fails it."""
        failure_queue(queue)
        options = self._failure_options.get(queue, {})
        yield from ruling.set_lane(queue, {"fh": options if check_flag(on, "on") else "-"}, range(self.shards))

    def _queue_names(self) -> Steps[list[str]]:
        """The names of all queues that the server knows."""
        names: dict[str, None] = {}
        for shard in range(self.shards):
            cursor = ""
            while True:
                cursor, found = yield from looking.lanes_page("", cursor, 200, shard)
                names |= dict.fromkeys(found)
                if not cursor:
                    break
        return sorted(names)

    def _counts(self) -> Steps[dict[str, Counts]]:
        """How many jobs of each queue stand where."""
        names = yield from self._queue_names()
        if not names:
            return {}
        tallies = yield from looking.counts(names, range(self.shards))
        return {name: read_counts(tally) for name, tally in zip(names, tallies, strict=True)}

    def _audit(self, repair: bool = False) -> Steps[list[str]]:
        """The deep clean: what a stranger's hand broke, in words; mended with `repair`. Queues go on meanwhile.

        With `repair`, versions of the function library that no live session names are removed too.
        """
        findings: list[str] = []
        for shard in range(self.shards):
            findings += yield from auditing.audit(self._engine.site.namespace, shard, repair)
        if repair:
            yield from versions.prune_libraries(library().name, self.shards)
        return findings

    def _history(
        self, n: int = 1000, *, queue: str | None = None, id: str | None = None, newest: bool = True
    ) -> Steps[list[Event]]:
        """The newest `n` events that are kept, or with `newest=False` the oldest; in either case the oldest first.

        `queue` and `id` choose the events of one queue, or of jobs with that id; gaps belong to none.
        """
        return (yield from histories.read_history(range(self.shards), n, queue, id, newest))

    def events(self, after: str | None = None) -> Iterator[EventPage]:
        """Go through all events that are kept, shard by shard, or those after the `cursor` of a page; then end."""
        cursor = Cursor(after, self.shards)
        for shard in range(self.shards):
            more = True
            while more:
                page, more = self._engine.run(cursor.read(shard))
                if page.events:
                    yield page

    async def aevents(self, after: str | None = None) -> AsyncIterator[EventPage]:
        """The asynchronous `events`."""
        cursor = Cursor(after, self.shards)
        for shard in range(self.shards):
            more = True
            while more:
                page, more = await self._engine.arun(cursor.read(shard))
                if page.events:
                    yield page

    def _set_history(self, level: str = "attempt", max_events: int = 0) -> Steps[None]:
        """Switch the history "off" or to "attempt"; keep about `max_events` a shard (0: as it is)."""
        yield from histories.set_history(level, max_events, range(self.shards))

    lane, alane = plain(_lane), twin(_lane)
    failure_jobs, afailure_jobs = plain(_failure_jobs), twin(_failure_jobs)
    queue_names, aqueue_names = plain(_queue_names), twin(_queue_names)
    counts, acounts = plain(_counts), twin(_counts)
    audit, aaudit = plain(_audit), twin(_audit)
    history, ahistory = plain(_history), twin(_history)
    set_history, aset_history = plain(_set_history), twin(_set_history)

    def close(self) -> None:
        """Close all connections; an embedded server stops when its last user leaves."""
        self._engine.site.close()

    async def aclose(self) -> None:
        """Close all connections, those of the running event loop first."""
        await self._engine.site.aclose()

    def __enter__(self) -> Headrace:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Headrace:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def _home(folder: object) -> Path | None:
    if folder is None:
        return None
    try:
        text: object = os.fspath(cast("str", folder))
        os.fsencode(text)
    except (TypeError, UnicodeEncodeError):
        text = None
    if not isinstance(text, str) or not text or "\0" in text:
        raise OptionError(f"folder={shown(folder)}: expected the path of a folder, as text or a Path")
    return Path(text)


def _check_level(durability: str | None) -> None:
    if durability is not None and durability not in _LEVELS:
        raise OptionError(f"durability={shown(durability)}: expected one of {', '.join(_LEVELS)}")


def _check_durability(wanted: str | None, found: str) -> None:
    disk, _, replicated = found.partition(", ")
    if wanted is None or (wanted == "replicated" and replicated) or disk == "unknown":
        return
    if wanted == "replicated" or _LEVELS.index(disk) < _LEVELS.index(wanted):
        raise ServerUnfit(
            f"durability={wanted!r} was asked for, the server promises {found!r}: change its appendonly, appendfsync "
            "or min-replicas-to-write setting, or ask for less"
        )
