"""What the tests of the transports share: a library of small functions, and ways to call them on either transport."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from headrace.protocol.steps import Arg, Call, Channel, Effect, Steps
from headrace.server.connect import Site, open_site


class Functions:
    """The library of `functions.lua`, named by its hash as the engine's is."""

    def __init__(self) -> None:
        text = (Path(__file__).parent / "functions.lua").read_text()
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        self.name = f"transport_{digest}"
        self.source = f"#!lua name={self.name}\n" + text.replace("PREFIX", self.name)

    def function(self, name: str) -> str:
        """The full name of a function."""
        return f"{self.name}_{name}"


FUNCTIONS = Functions()


def site_at(url: str, **options: Any) -> Site:
    """An open site with the test library in place of the engine's."""
    return open_site(url, functions=FUNCTIONS, **options)


def doing(effect: Effect) -> Steps[Any]:
    """An operation of one effect, whose answer it returns."""

    def steps() -> Generator[Effect, Any, Any]:
        return (yield effect)

    return steps()


def echo(*args: Arg, shard: int = 0) -> Call:
    """Answers its arguments."""
    return Call("echo", shard, args, readonly=True)


def add(counter: str, by: int = 1, shard: int = 0, channel: Channel | None = None) -> Call:
    """Adds once, however often it is sent."""
    return Call("add", shard, (counter, by), numbered=True, channel=channel)


def bump(counter: str, shard: int = 0) -> Call:
    """Adds one, and may not be repeated."""
    return Call("bump", shard, (counter,))


def read(counter: str, shard: int = 0) -> Call:
    """The value of a counter, or None."""
    return Call("read", shard, (counter,), readonly=True)


def push(key: str, shard: int = 0) -> Call:
    """Puts a token on a list."""
    return Call("push", shard, (key,))


def publish(channel: str, message: str, shard: int = 0) -> Call:
    """Publishes a message."""
    return Call("publish", shard, (channel, message))


class Runner:
    """Runs effects on a site by one of the two transports, so that one test serves both."""

    def __init__(self, site: Site, loop: asyncio.Runner | None) -> None:
        self.site = site
        self._loop = loop

    def __call__(self, effect: Effect) -> Any:
        """Run one effect."""
        return self.run(doing(effect))

    def run(self, steps: Steps[Any]) -> Any:
        """Run an operation."""
        return self._loop.run(self.site.arun(steps)) if self._loop else self.site.run(steps)

    def wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run anything asynchronous on the loop of an asynchronous kind."""
        assert self._loop is not None
        return self._loop.run(coroutine)


KINDS = ["blocking", "asyncio", "uvloop"]


@contextmanager
def running(kind: str, url: str, **options: Any) -> Generator[Runner]:
    """A site and a way to run effects on it, closed at the end."""
    with site_at(url, **options) as site:
        if kind == "blocking":
            yield Runner(site, None)
            return
        with asyncio.Runner(loop_factory=uvloop.new_event_loop if kind == "uvloop" else None) as loop:
            yield Runner(site, loop)
            loop.run(site.aclose())
