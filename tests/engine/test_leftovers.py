"""What ended leaves nothing, also while work goes on (E7): lanes of one job each, watchers that went away."""

from __future__ import annotations

from tests.tools.shard import Ask, Finish, Shard, Want


def test_lanes_go_as_fast_as_they_come(shard: Shard) -> None:
    """A lane for each request: forgetting them must keep up with the claims that empty them."""
    for turn in range(60):
        shard.enqueue("q", [Ask(f"{turn}.{i}", lane=f"{turn}.{i}", options={"k": 0}) for i in range(100)])
        jobs = shard.claim(Want(100)).jobs
        assert len(jobs) == 100
        shard.finish([Finish(job.key, job.claim) for job in jobs])
        shard.advance(6_000)
    assert shard.client.scard(shard.tag + "c:q") <= 1_200, "of 6,000 lanes, those of the last minute and little more"


def test_who_watched_in_vain_does_not_keep_results_alive(shard: Shard) -> None:
    shard.enqueue("q", [Ask("never"), Ask("1", options={"k": 0}), Ask("2", options={"k": 0})])
    shard.call("watch", "q", "never", 0, 5_000)
    jobs = {job.id: job for job in shard.take(3)}
    assert shard.end(jobs["1"]) == "C"
    assert shard.client.exists(shard.tag + "r:q/1"), "somebody may be about to look"
    shard.advance(5_001)
    assert shard.end(jobs["2"]) == "C"
    assert not shard.client.exists(shard.tag + "r:q/2")
    assert not shard.client.exists(shard.tag + "watch")
