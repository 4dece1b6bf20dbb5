"""The crash switch kills a process at the named place, at the nth time, and costs nothing otherwise."""

from __future__ import annotations

import pytest

from headrace.errors import OptionError
from headrace.server import crashpoint
from tests.tools.crash import Child

CODE = """
from headrace.server.crashpoint import crash_point
try:
    for n in range(5):
        crash_point("other")
        crash_point("here")
        tell(n)
finally:
    tell("ended")
"""


def test_dies_at_the_nth_pass_without_a_word() -> None:
    with Child(CODE, crash_at="here:3") as child:
        assert [child.says(), child.says()] == ["0", "1"]
        assert child.crashed()
        with pytest.raises(AssertionError, match="said nothing more"):
            child.says()


def test_without_a_number_the_first_time() -> None:
    with Child(CODE, crash_at="here") as child:
        assert child.crashed()


@pytest.mark.parametrize("crash_at", [None, "elsewhere:1", "here:6"])
def test_runs_to_the_end_otherwise(crash_at: str | None) -> None:
    with Child(CODE, crash_at=crash_at) as child:
        assert [child.says() for _ in range(6)] == ["0", "1", "2", "3", "4", "ended"]
        assert child.ends() == 0


@pytest.mark.parametrize("value", [":1", "here:0", "here:-1", "here:x", "here:1.5"])
def test_a_point_that_can_never_be_met_is_refused(value: str) -> None:
    with pytest.raises(OptionError, match="HEADRACE_CRASH_AT"):
        crashpoint.parse(value)


def test_not_armed_it_is_an_empty_function() -> None:
    assert crashpoint.crash_point.__code__.co_names == ()
