"""What every operation runs on: an open site, its shards, and what to do when a shard lost its data."""

from __future__ import annotations

import logging
import os
import secrets
from collections import deque
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from headrace.errors import ForeignKey, NoShard
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

    def run(self, steps: Callable[[], Steps[R]]) -> R:
        """Run an operation; start it anew when the server had lost the shard, or held a foreign key."""
        try:
            return self.site.run(steps())
        except NoShard as error:
            log.error("%s: starting with an empty shard (what Redis held is gone)", error)
            self.ground = self.site.run(boot(self.ring.shards))
        except ForeignKey as error:
            log.error("%s: moving it out of the way", error)
            self.site.run(quarantine(self.site.namespace, self.ring.shards))
            self.ground = self.site.run(boot(self.ring.shards))
        return self.site.run(steps())

    async def arun(self, steps: Callable[[], Steps[R]]) -> R:
        """The asynchronous `run`."""
        try:
            return await self.site.arun(steps())
        except NoShard as error:
            log.error("%s: starting with an empty shard (what Redis held is gone)", error)
            self.ground = await self.site.arun(boot(self.ring.shards))
        except ForeignKey as error:
            log.error("%s: moving it out of the way", error)
            await self.site.arun(quarantine(self.site.namespace, self.ring.shards))
            self.ground = await self.site.arun(boot(self.ring.shards))
        return await self.site.arun(steps())


class OnEngine(Protocol):
    """Anything whose operations run on an engine."""

    @property
    def engine(self) -> Engine:
        """The engine that runs this object's operations."""
        ...


S = TypeVar("S", bound=OnEngine)
Method = Callable[Concatenate[S, P], Steps[R]]
