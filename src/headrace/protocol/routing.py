"""Which shard a job belongs to (E28): its route; else its outermost lane; else its id."""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass

from headrace.errors import OptionError, RouteRequired
from headrace.protocol.names import shard_in
from headrace.protocol.texts import MAX_BYTES, check_text, shown


@dataclass(frozen=True, slots=True)
class Ring:
    """The shards of one namespace. One shard is the common case, and none of this shows then."""

    namespace: str
    shards: int = 1

    def of_route(self, route: str) -> int:
        """The shard that a routing key falls on."""
        return zlib.crc32(route.encode()) % self.shards

    def of_id(self, id: str) -> int:
        """The shard of a job known by its id alone."""
        if self.shards == 1:
            return 0
        carried = shard_in(id)
        return carried % self.shards if carried is not None else self.of_route(id)

    def of_job(self, id: str | None, lane: str, route: str | None) -> int:
        """The shard for a job about to be enqueued, whose id may not be known yet."""
        if self.shards == 1:
            return 0
        if route is not None:
            return self.of_route(route)
        if lane:
            if id is not None:
                raise RouteRequired(
                    f"job {id!r} in lane {lane!r}: with {self.shards} shards an id of your own together with a lane "
                    "needs `route=`, or the job could not be found again by its id"
                )
            return self.of_route(lane.split("/", 1)[0])
        return self.of_id(id) if id is not None else random.randrange(self.shards)

    def of_path(self, lane: str, route: str | None = None) -> list[int]:
        """The shards in which a lane (or with '' a whole queue) may have jobs."""
        if self.shards == 1:
            return [0]
        if route is not None:
            return [self.of_route(route)]
        return list(range(self.shards))


def check_route(route: object) -> str | None:
    """A routing key: a text of 1..256 bytes without control characters, an integer, or None."""
    if route is None:
        return route
    if isinstance(route, int) and not isinstance(route, bool):
        route = shown(route, MAX_BYTES)
    if isinstance(route, str):
        return check_text(route, "route", OptionError)
    raise OptionError(f"route must be a string or an integer, not {type(route).__name__}: {shown(route)}")
