"""Silences of the server give sessions grace (E12), but nobody's silence keeps the dead alive."""

from __future__ import annotations

from tests.tools.shard import Ask, Shard, Want


def dead_session(shard: Shard) -> None:
    """A session with a job, of which nobody will hear again."""
    shard.open("dead", lease=10_000)
    shard.enqueue("q", [Ask("1")])
    assert shard.claim(Want(1, lease=0), "dead").ids == ["1"]


def test_a_lone_waiter_takes_over_from_a_dead_session_in_time(shard: Shard) -> None:
    """Its own waits of five seconds looked like silences of the server, one after the other, for ever."""
    dead_session(shard)
    shard.advance(100)
    passed, reply = 100, shard.claim(Want(1, ("q",), wait=5_000, waiter="w"))
    while not reply.jobs and passed < 60_000:
        pause = min(5_000, reply.due) + 3  # no wait ends to the millisecond
        shard.advance(pause)
        passed += pause
        reply = shard.claim(Want(1, ("q",), wait=5_000, waiter="w"))
    assert reply.ids == ["1"]
    assert passed < 10_100


def test_who_looks_in_rarely_gets_the_jobs_of_a_dead_session(shard: Shard) -> None:
    dead_session(shard)
    got: list[str] = []
    for _ in range(4):
        shard.advance(7_000)
        got += [job.id for job in shard.take(1)]
    assert got == ["1"]


def test_every_silence_is_forgiven_to_a_session_that_beats_in_between(shard: Shard) -> None:
    dead_session(shard)
    for _ in range(6):
        shard.advance(60_000)  # a server that stops again and again
        assert shard.take(1) == []
        shard.advance(1_000)
        assert shard.heartbeat("dead") == (True, [])


def test_the_number_of_a_channel_in_use_is_forgotten_in_the_end(shard: Shard) -> None:
    """The chore that looked at it in a call of its own was its last."""
    for _ in range(30):
        shard.claim(Want(), "mine")
        shard.advance(60_000)
    assert "mine" in channels(shard)
    shard.advance(600_000)
    shard.claim(Want(), "another")
    assert channels(shard) == {"another"}


def channels(shard: Shard) -> set[str]:
    """Channels whose last number is kept."""
    return {name.decode()[2:] for name in shard.client.hkeys(shard.tag + "meta") if name.startswith(b"a:")}
