"""How a generation ended is known by that generation's handle, whatever becomes of its id afterwards."""

from __future__ import annotations

import pytest

from tests.tools.shard import Ask, Shard


def status(shard: Shard, generation: int = 0) -> str:
    return shard.call("look", "q", "x", generation)[0].decode()


def enqueue(shard: Shard, data: str = "data", /, **options: int) -> int:
    return shard.enqueue("q", [Ask("x", data, options=dict(options))])[1][0]


def end(shard: Shard, op: str = "c", body: str | None = None) -> None:
    (job,) = shard.take(1)
    assert shard.end(job, op, body) in "CFR"


def test_a_failure_is_known_after_its_id_was_enqueued_again(shard: Shard) -> None:
    first = enqueue(shard)
    end(shard, "f")
    second = enqueue(shard)
    assert (status(shard, first), status(shard, second)) == ("failed", "ready")
    end(shard)
    assert (status(shard, first), status(shard, second), status(shard)) == ("failed", "done", "done")


def test_a_failure_job_that_made_way_is_known(shard: Shard) -> None:
    shard.lane("q", fh={})
    enqueue(shard)
    end(shard, "f")
    (failure,) = shard.take(1, "q-fail")
    generation = shard.call("look", "q-fail", "x", 0)[1]
    assert shard.end(failure, "f") == "F"
    enqueue(shard)
    end(shard, "f")
    assert shard.call("look", "q-fail", "x", generation)[0] == b"failed"
    assert shard.call("look", "q-fail", "x", 0)[0] == b"ready"


def test_the_latest_result_is_never_an_older_one(shard: Shard) -> None:
    first = enqueue(shard)
    end(shard, "c", "\1first")
    second = enqueue(shard, k=0)
    end(shard, "c", "\1second")
    assert status(shard) == "", "the latest result was not to be kept"
    assert (status(shard, first), status(shard, second)) == ("done", "")
    assert shard.call("look", "q", "x", first)[5] == b"\1first"


@pytest.mark.parametrize("options", [{"u": 60_000}, {"u": 60_000, "d": 0}])
def test_unique_for_does_not_hold_the_id_of_a_failed_job(shard: Shard, options: dict[str, int]) -> None:
    enqueue(shard, "data", **options)
    end(shard, "f")
    assert shard.enqueue("q", [Ask("x")])[0] == "a"


@pytest.mark.parametrize("merges", [3, 20, 90])
def test_the_first_of_many_merged_twins_learns_the_end(shard: Shard, merges: int) -> None:
    first = enqueue(shard, f=-1)
    for i in range(merges):
        (job,) = shard.take(1)
        enqueue(shard, str(i), f=-1)
        assert shard.end(job, "r", "-1 0 error") == "R"
    assert status(shard, first) == "ready"
    end(shard, "c", "\1ok")
    assert status(shard, first) == "done"


def test_merged_too_often_is_unknown_not_a_status_of_its_own(shard: Shard) -> None:
    first = enqueue(shard, f=-1)
    for i in range(150):
        (job,) = shard.take(1)
        enqueue(shard, str(i), f=-1)
        shard.end(job, "r", "-1 0 error")
    assert status(shard, first) == ""


def test_a_job_that_fails_without_end_waits_a_year_at_most(shard: Shard) -> None:
    enqueue(shard, f=-1, x=-1, b=1_000_000)
    for _ in range(60):
        (job,) = shard.take(1)
        assert shard.end(job, "r") == "R"
        due = int(shard.call("look", "q", "x", 0)[4])
        assert due - shard.now <= 366 * 86_400_000
        shard.set_clock(due)


def test_results_kept_for_ever_are_not_kept_of_every_generation(shard: Shard) -> None:
    for _ in range(5):
        enqueue(shard, k=-1)
        end(shard, "c", "\1r")
    alive = [shard.client.pttl(name) for name in shard.client.scan_iter(shard.tag + "r:*")]
    assert sorted(alive)[0] == -1
    assert sum(ttl == -1 for ttl in alive) == 1
