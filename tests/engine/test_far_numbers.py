"""A shard that is years old, or was made years from now: its sequence starts from the clock, and numbers are big."""

from __future__ import annotations

import pytest

from tests.tools.shard import Ask, Finish, Shard


@pytest.mark.parametrize("sequence", [(1 << 40) - 2, 1 << 40, 9_000_000_000_000])
def test_claims_of_an_old_shard_end_like_any_others(shard: Shard, sequence: int) -> None:
    shard.client.hset("{test:0}meta", "seq", sequence)
    shard.enqueue("q", [Ask(str(i)) for i in range(6)])
    jobs = shard.take(6)
    assert [job.id for job in jobs] == ["0", "1", "2", "3", "4", "5"], "the order of arrival"
    assert {len(job.claim) for job in jobs} == {27}
    assert len({job.claim for job in jobs}) == 6
    letters, _ = shard.finish([Finish(job.key, job.claim) for job in jobs])
    assert letters == "CCCCCC"
    assert shard.counts("q") == [(0, 0, 0, 0, 0, 0)]
