"""Calls and their replies on both transports: order, errors by type, loading on demand, many callers at once."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from headrace import errors
from headrace.protocol.steps import Call, Channel, Effect
from headrace.server.connect import Site
from tests.server.transport_tools import FUNCTIONS, KINDS, Runner, add, bump, doing, echo, read, running, site_at
from tests.tools.proxy import ChaosProxy
from tests.tools.servers import Server, program

FLAVOURS = [flavour for flavour in ("valkey", "redis") if program(flavour)]


@pytest.fixture(scope="module", params=FLAVOURS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(request.param) as server:
        yield server


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, server: Server) -> Iterator[Runner]:
    with server.admin() as client:
        cast(Any, client).flushall()
    with running(request.param, server.url) as run:
        yield run


def test_arguments_and_replies_pass_unchanged(run: Runner) -> None:
    words = [b"\x00\xff\r\n", "ü", 7, 0.1, "", b"x" * 1_000_000]
    assert run(echo(*words)) == [b"\x00\xff\r\n", "ü".encode(), b"7", b"0.1", b"", b"x" * 1_000_000]
    assert run(read("nothing")) is None


def test_a_list_is_answered_in_order(run: Runner) -> None:
    calls = [echo(i, shard=i % 3) for i in range(100)]
    assert run(calls) == [[b"%d" % i] for i in range(100)]
    assert run([]) == []


def test_a_big_list_does_not_block_itself(run: Runner) -> None:
    payload = b"x" * 1_000_000
    assert run([echo(payload) for _ in range(30)]) == [[payload]] * 30


def test_the_first_error_of_a_list_is_raised_after_all_were_done(run: Runner) -> None:
    calls = [add("n"), Call("fail", 0, ("HR_NAME first",)), add("n"), Call("fail", 0, ("HR_BAD second",)), add("n")]
    with pytest.raises(errors.NameInvalid, match="first"):
        run(calls)
    assert run(read("n")) == b"3"


def test_an_operation_is_driven_to_its_result_and_sees_its_errors(run: Runner) -> None:
    def steps() -> Generator[Effect, Any, str]:
        first = yield add("n", 5)
        try:
            yield Call("fail", 0, ("HR_EXISTS taken",))
        except errors.JobExists as error:
            second = yield [add("n", first), echo(str(error))]
            return f"{second}"
        return "no error came"

    assert run.run(steps()) == "[10, [b'taken']]"


def test_a_channel_numbers_its_calls_also_within_a_list(run: Runner) -> None:
    channel = Channel("session")
    assert run([add("n", channel=channel), add("n", channel=channel), add("m", 1, 1, channel=channel)]) == [1, 2, 1]
    assert channel.number == 3
    with pytest.raises(errors.ProtocolError, match="came after"):
        run(Call("add", 0, ("session", 1, "n", 1)))


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("HR_NOSHARD shard 3 was never made", errors.NoShard, r"^shard 3 was never made$"),
        ("HR_UPGRADE format 9", errors.UpgradeNeeded, r"^format 9$"),
        ("HR_MISMATCH 6", errors.ShardMismatch, r"^6$"),
        ("HR_STALE number", errors.ProtocolError, r"^number$"),
        ("HR_LOST claim", errors.ClaimLost, r"^claim$"),
        ("HR_EXISTS id", errors.JobExists, r"^id$"),
        ("HR_CONFLICT setting", errors.SettingConflict, r"^setting$"),
        ("HR_BAD input", errors.InvalidInput, r"^input$"),
        ("HR_NAME queue", errors.NameInvalid, r"^queue$"),
        ("HR_OPTION priority", errors.OptionError, r"^priority$"),
        ("HR_NEWER thing", errors.ProtocolError, r"^thing$"),
        ("OOM command not allowed", errors.QueueFull, "maxmemory"),
        ("NOPERM User x has no permissions to run the 'fcall' command", errors.ServerUnfit, "may not run FCALL"),
        ("ERR something else", errors.ProtocolError, "fail was answered by .* ERR something else|something else"),
    ],
)
def test_errors_of_functions_have_types(run: Runner, text: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        run(Call("fail", 0, (text,)))
    assert type(caught.value) is kind


def test_an_error_raised_in_lua_and_a_foreign_type(run: Runner) -> None:
    with pytest.raises(errors.ProtocolError, match="oh dear") as caught:
        run(Call("raise", 0, ("oh dear",)))
    assert "user_function" not in str(caught.value)
    with pytest.raises(errors.ForeignKey, match="audit"):
        run(Call("wrongtype", 0))


def test_out_of_memory_is_a_full_queue() -> None:
    with Server(maxmemory="1mb") as server, site_at(server.url) as site, pytest.raises(errors.QueueFull):
        site.run(doing([add("n")]))


def test_the_library_is_loaded_when_it_is_missing(run: Runner, server: Server) -> None:
    with server.admin() as client:
        functions = cast(Any, client)
        for effect in (add("n"), [add("n") for _ in range(20)], bump("n")):
            functions.function_flush()
            run(effect)
        assert run(read("n")) == b"22"
        assert [name for name in str(functions.function_list()).split("'") if name == FUNCTIONS.name]


def test_a_function_that_does_not_exist_is_a_defect_at_once(run: Runner) -> None:
    with pytest.raises(errors.ProtocolError, match="has no function nothing"):
        run(Call("nothing", 0))


def test_a_library_that_does_not_compile_says_so(server: Server) -> None:
    class Broken:
        name = "broken"
        source = "#!lua name=broken\nthis is not lua"

        def function(self, name: str) -> str:
            return f"broken_{name}"

    from headrace.server.connect import open_site

    with open_site(server.url, functions=Broken()) as site, pytest.raises(errors.ProtocolError, match="FUNCTION LOAD"):
        site.run(doing(echo("x")))


def test_sixteen_threads(server: Server) -> None:
    with site_at(server.url, namespace="threads") as site, ThreadPoolExecutor(16) as pool:

        def work(thread: int) -> bool:
            own = all(site.run(doing(echo(thread, i))) == [b"%d" % thread, b"%d" % i] for i in range(100))
            for _ in range(100):
                site.run(doing(add("n")))
            return own

        assert all(pool.map(work, range(16)))
        assert site.run(doing(read("n"))) == b"1600"


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_five_hundred_tasks_share_one_connection(server: Server, kind: str) -> None:
    with ChaosProxy(server) as proxy, running(kind, proxy.url, namespace=f"tasks{kind}") as run:

        async def work(task: int) -> bool:
            await run.site.arun(doing(add("n")))
            return await run.site.arun(doing(echo(task))) == [b"%d" % task]

        async def all_of_them() -> list[bool]:
            return await asyncio.gather(*(work(task) for task in range(500)))

        before = _connections(server)
        assert all(run.wait_for(all_of_them()))
        assert _connections(server) - before <= 2  # one of them is the look itself
        assert run(read("n")) == b"500"


def _connections(server: Server) -> int:
    with server.admin() as client:
        return cast(Any, client).info("stats")["total_connections_received"]


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_cancelled_call_leaves_the_others_alone(server: Server, kind: str) -> None:
    with running(kind, server.url, namespace=f"cancel{kind}") as run:

        async def work() -> list[Any]:
            tasks = [asyncio.create_task(run.site.arun(doing(add("n")))) for _ in range(100)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            kept = await asyncio.gather(*tasks[1::2])
            return [*kept, await run.site.arun(doing(echo("after")))]

        *sums, after = run.wait_for(work())
        assert after == [b"after"]
        assert len(set(sums)) == 50
        assert int(run(read("n"))) >= 50


def test_loops_one_after_the_other_and_two_at_once(server: Server) -> None:
    site = site_at(server.url, namespace="loops")

    async def work() -> None:
        await asyncio.gather(*(site.arun(doing(add("n"))) for _ in range(20)))

    for _ in range(3):
        asyncio.run(work())
    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert site.run(doing(read("n"))) == b"100"
    site.close()


def test_a_fork_shares_neither_sockets_nor_numbers(server: Server) -> None:
    fork = multiprocessing.get_context("fork")
    with site_at(server.url, namespace="fork") as site:
        assert site.run(doing([add("n")] * 4)) == [1, 2, 3, 4]

        async def in_both() -> list[int]:
            # The child starts while this loop has an open connection, and uses a loop of its own.
            assert await site.arun(doing(add("n"))) == 5
            queue = fork.SimpleQueue()
            child = fork.Process(target=_in_child, args=(site, queue))
            child.start()
            mine = [await site.arun(doing(add("n"))) for _ in range(200)]
            theirs = cast("list[int]", await asyncio.to_thread(queue.get))
            await asyncio.to_thread(child.join)
            assert child.exitcode == 0
            return mine + theirs

        sums = asyncio.run(in_both())
        assert sorted(sums) == list(range(6, 406))
        assert site.run(doing(add("n"))) == 406


def _in_child(site: Site, queue: Any) -> None:
    sums = [site.run(doing(add("n"))) for _ in range(100)]
    sums += asyncio.Runner().run(_many(site))
    queue.put(sums)


async def _many(site: Site) -> list[int]:
    return [await site.arun(doing(add("n"))) for _ in range(100)]


class Interrupt(BaseException):
    """Raised by a signal in the middle of whatever runs, as Ctrl-C is."""


def _interrupt(*_: object) -> None:
    raise Interrupt


def _run_until_interrupted(site: Site, effect: Effect, after: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, after)
    while True:
        site.run(doing(effect))


def test_an_interrupt_leaves_no_connection_out_of_step(server: Server) -> None:
    before = signal.signal(signal.SIGALRM, _interrupt)
    try:
        with site_at(server.url, namespace="interrupt") as site:
            for i in range(100):
                effect = echo("before", i) if i % 2 else [echo("before", i), echo("also", i)]
                with pytest.raises(Interrupt):
                    _run_until_interrupted(site, effect, 0.0001 * (1 + i % 13))
                assert site.run(doing(echo("after", i))) == [b"after", b"%d" % i]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_closed_site_says_so(server: Server) -> None:
    site = site_at(server.url)
    site.close()
    with pytest.raises(errors.ServerUnavailable, match="closed"):
        site.run(doing(echo("x")))
    site.close()
