"""What every operation runs on: an open site, its shards, and what to do when a shard lost its data."""

from __future__ import annotations

import logging
import os
import secrets
from collections import deque
from collections.abc import Callable, Collection
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from headrace.errors import ForeignKey, HeadraceError
from headrace.protocol.auditing import quarantine
from headrace.protocol.booting import Ground, boot
from headrace.protocol.routing import Ring
from headrace.protocol.steps import Channel, Steps
from headrace.server.site import Site

P = ParamSpec("P")
R = TypeVar("R")

log: Final = logging.getLogger("headrace")


class Engine:
    """An open site and the shards of one namespace on it."""

    def __init__(self, site: Site, shards: int | None = None, max_payload: int = 1 << 20) -> None:
        self.site = site
        self.max_payload = max_payload
        self.ground: Ground = site.run(boot(shards))
        self.ring = Ring(site.namespace, self.ground.shards)
        site.mend_with(self._mend)
        self._channels: deque[Channel] = deque()
        self._pid = os.getpid()

    def borrow_channel(self) -> Channel:
        """A channel for a call that may have to be asked again; give it back once its reply is there."""
        if self._pid != os.getpid():  # a forked child numbers its calls on channels of its own
            self._channels, self._pid = deque(), os.getpid()
        try:
            return self._channels.pop()
        except IndexError:
            return Channel(secrets.token_urlsafe(12))

    def return_channel(self, channel: Channel) -> None:
        """Its last call was answered: others may use it."""
        self._channels.append(channel)

    def run(self, steps: Steps[R]) -> R:
        """Run an operation."""
        return self.site.run(steps)

    async def arun(self, steps: Steps[R]) -> R:
        """The asynchronous `run`."""
        return await self.site.arun(steps)

    def _mend(self, errors: Collection[HeadraceError]) -> Steps[None]:
        """Make shards anew whose data the server lost; move keys of strangers out of the way."""
        foreign = False
        for error in errors:
            if isinstance(error, ForeignKey):
                foreign = True
                log.error("%s: moving it out of the way", error)
            else:
                log.error("%s: starting with an empty shard (what Redis held is gone)", error)
        if foreign:
            yield from quarantine(self.site.namespace, self.ring.shards)
        self.ground = yield from boot(self.ring.shards)


class OnEngine(Protocol):
    """Anything whose operations run on an engine."""

    @property
    def engine(self) -> Engine:
        """The engine that runs this object's operations."""
        ...


S = TypeVar("S", bound=OnEngine)
Method = Callable[Concatenate[S, P], Steps[R]]
