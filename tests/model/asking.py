"""What the machine draws from: small pools, so that ids, lanes, times and limits meet each other all the time."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.tools.shard import START, Ask, Want

QUEUES = ("a", "b")
LANES = ("", "", "x", "x/y", "x/z", "w")
PATHS = (*QUEUES, "a/x", "a/x/y", "a/w", "b/x", "b/x/z")
TASKS = ("T", "U")

queues = st.sampled_from(["a", "a", "b"])
lanes = st.sampled_from(LANES)
paths = st.sampled_from(PATHS)
tasks = st.sampled_from(TASKS)
ids = st.sampled_from([str(i) for i in range(1, 8)])
id_lists = st.lists(ids, min_size=1, max_size=3)
prios = st.sampled_from([50, 50, 50, 10, 90])
flags = st.sampled_from([1, 1, 0])
times = st.sampled_from([0, 0, 0, START + 2_000, START + 30_000, START + 200_000])
spans = st.sampled_from([1, 900, 3_000, 5_000, 10_000, 30_000, 61_000, 130_000])
edges = st.tuples(st.integers(0, 3), st.sampled_from([-1, 0, 0, 1]))
leases = st.sampled_from([1_000, 10_000, 30_000])

options: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "f": st.sampled_from([0, 1, -1]),
        "s": st.sampled_from([0, 1, -1]),
        "o": st.sampled_from([0, 1, -1]),
        "t": st.sampled_from([3_000, 20_000]),
        "b": st.sampled_from([0, 1_000]),
        "x": st.sampled_from([-1, 4_000]),
        "k": st.sampled_from([0, -1]),
        "d": st.sampled_from([0, -1, 100_000, 100_000]),
        "u": st.sampled_from([60_000, 300_000, -1]),
        "n": tasks,
    },
)

asks = st.builds(
    Ask,
    id=ids,
    payload=st.sampled_from(["one", "two", "three"]),
    lane=lanes,
    prio=prios,
    at=times,
    delay=st.sampled_from([0, 0, 0, 1_500, 40_000]),
    options=st.one_of(st.just({}), st.just({}), options),
    update_data=flags,
    update_run_at=st.sampled_from([1, 1, 0, 2, 3]),
    reset_counts=st.sampled_from([None, None, 0, 1]),
    letters=st.sampled_from(["", "", "pl", "p", "l", "fsotbxkdun", "n", "plfu"]),
)

plain_asks = st.builds(
    Ask,
    id=ids,
    lane=lanes,
    prio=prios,
    delay=st.sampled_from([0, 0, 0, 1_500]),
    options=st.one_of(st.just({}), options),
)

served = st.sampled_from([("*",), ("*",), ("a",), ("b",), ("a", "b")])
by_hand = st.builds(Want, n=st.integers(1, 5), queues=served, lease=leases, ahead=st.sampled_from([0, 0, 0, 2]))
by_session = st.builds(Want, n=st.integers(1, 5), queues=served, lease=st.just(0), ahead=st.sampled_from([0, 0, 3]))
slices = st.builds(
    Want, n=st.just(1), queues=served, lease=leases, members=st.integers(2, 4), units=st.sampled_from([1, 1, 2])
)

_settings: list[dict[str, Any]] = [
    *({"c": cap} for cap in (0, 1, 1, 2, 2, 3, -1)),
    *({"rn": n, "rw": window} for n, window in ((1, 30_000), (2, 60_000), (3, 30_000), (-1, -1))),
    *({"p": prio} for prio in (5, 50, 95, -1)),
    *({"ag": aging} for aging in (1_000, 20_000, -1)),
    *({"nb": at} for at in (0, START + 20_000, START + 40_000)),
    *({"fh": options} for options in ({}, {"f": 1}, "-")),
    *({"forget": True}, {"w": 3}, {"q": 1}, {"c": 2, "rn": 2, "rw": 30_000}, {"c": 1, "p": 60, "forget": True}),
]
settings = st.sampled_from(_settings)
mostly = st.sampled_from([True, True, False])
switches = st.sampled_from([True, False, False])
ops = st.sampled_from("cccrrrfllapt")
bodies = st.sampled_from(["-1 -1 error", "-1 -1 error", "-1 7000 error", f"{START + 100_000} -1 error", "0 -1 error"])
