"""One server per folder: started by the first, shared, stopped after the last, found again after every crash."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from headrace.server.embedded import Embedded, start_or_join
from headrace.server.embedded_folder import Folder
from tests.tools.crash import Child
from tests.tools.processes import alive, eventually, new_directory

USER = """
from pathlib import Path
from headrace.server.embedded import start_or_join
server = start_or_join(Path({folder!r}))
tell(server.pid, server.url)
wait()
server.close()
tell('left')
wait()
"""


def client(server: Embedded) -> Any:
    return cast(Any, redis.Redis).from_url(server.url)


def supervisor_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def gone(*pids: int) -> None:
    for pid in pids:
        eventually(lambda pid=pid: not alive(pid), f"process {pid} is gone", 15)


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder to be made; whatever a failing test leaves running in it is ended."""
    path = new_directory("embedded") / "data"
    yield path
    stop_leftovers(path)


def stop_leftovers(path: Path) -> None:
    """Nobody uses the folder any more, so its server must be gone in a moment; if not, the test says so."""
    if path.is_dir():
        eventually(lambda: not Folder(path).occupied(), f"the server of {path} is gone", 15)


@pytest.fixture
def children() -> Generator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def user(children: ExitStack, folder: Path) -> tuple[Child, int, str]:
    """Another process that uses the folder: the child, and the server's pid and url that it got."""
    child = children.enter_context(Child(USER.format(folder=str(folder))))
    pid, url = child.says().split()
    return child, int(pid), url


def test_starts_keeps_data_and_stops_with_its_only_user(folder: Path) -> None:
    with start_or_join(folder) as server, client(server) as ask:
        supervisor = supervisor_of(server.pid)
        ask.set("k", "v")
        settings = ask.config_get("append*", "maxmemory-policy", "save", "port", "aof-load-truncated")
        assert settings["appendfsync"] == "everysec"
        assert settings["appendonly"] == settings["aof-load-truncated"] == "yes"
        assert (settings["maxmemory-policy"], settings["save"], settings["port"]) == ("noeviction", "", "0")
        assert os.getsid(server.pid) != os.getsid(0)
    gone(server.pid, supervisor)
    assert not (folder / "server.sock").exists()
    assert not (folder / "server.json").exists()
    with start_or_join(folder) as again, client(again) as ask:
        assert again.pid != server.pid
        assert ask.get("k") == b"v"


def test_files_are_private(folder: Path) -> None:
    folder.parent.chmod(0o755)
    with start_or_join(folder):
        modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in [folder, *folder.rglob("*")]}
    assert modes.pop(".gitignore") & 0o022 == 0
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


def test_others_join_and_the_last_one_to_leave_stops_it(folder: Path, children: ExitStack) -> None:
    first, pid, url = user(children, folder)
    second, *same = user(children, folder)
    with start_or_join(folder) as third:
        assert (third.pid, third.url) == (pid, url) == tuple(same)
        for leaving in (first, second):
            leaving.go()
            assert leaving.says() == "left"
        assert client(third).ping()
        # the one who started it is gone as a process, too
        first.go()
        assert first.ends() == 0
        assert client(third).ping()
    gone(pid)


def test_close_may_be_repeated_and_ends_the_share(folder: Path) -> None:
    server = start_or_join(folder)
    with start_or_join(folder) as other:
        server.close()
        server.close()
        assert client(other).ping()


def test_kill_9_of_a_user_leaves_the_others_their_server(folder: Path, children: ExitStack) -> None:
    starter, pid, _ = user(children, folder)
    joined, *_ = user(children, folder)
    with start_or_join(folder) as server:
        starter.kill()
        joined.kill()
        assert client(server).ping()
        assert server.pid == pid
        assert alive(pid)
    gone(pid)


def test_kill_9_of_the_only_user_stops_the_server(folder: Path, children: ExitStack) -> None:
    only, pid, url = user(children, folder)
    supervisor = supervisor_of(pid)
    cast(Any, redis.Redis).from_url(url).set("kept", 1)
    only.kill()
    gone(pid, supervisor)
    with start_or_join(folder) as server, client(server) as ask:
        assert ask.get("kept") == b"1"


def test_kill_9_of_the_server_is_mended_on_the_same_data_at_the_same_place(folder: Path, children: ExitStack) -> None:
    other, pid, url = user(children, folder)
    with start_or_join(folder) as server, client(server) as ask:
        ask.set("k", "v")
        supervisor = supervisor_of(pid)
        os.kill(pid, signal.SIGKILL)
        gone(pid, supervisor)
        server.ensure()
        assert server.pid != pid
        assert server.url == url
        assert ask.get("k") == b"v"
    other.go()
    assert other.says() == "left"
    gone(server.pid)


def test_kill_9_of_the_supervisor_takes_the_server_along(folder: Path) -> None:
    with start_or_join(folder) as server:
        pid = server.pid
        os.kill(supervisor_of(pid), signal.SIGKILL)
        gone(pid)
        server.ensure()
        assert server.pid != pid
        assert client(server).ping()


def test_an_unfinished_write_at_the_end_of_the_data_is_cut_off(folder: Path) -> None:
    with start_or_join(folder) as server, client(server) as ask:
        ask.set("k", "v")
    gone(server.pid)
    log = next((folder / "appendonlydir").glob("*.incr.aof"))
    with log.open("ab") as data:
        data.write(b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1")
    with start_or_join(folder) as again, client(again) as ask:
        assert ask.get("k") == b"v"
        assert ask.get("x") is None


def test_ten_at_once_start_exactly_one(folder: Path, children: ExitStack) -> None:
    code = "wait()\n" + USER.format(folder=str(folder))
    racers = [children.enter_context(Child("tell('here')\n" + code)) for _ in range(10)]
    assert {racer.says() for racer in racers} == {"here"}
    for racer in racers:
        racer.go()
    answers = {racer.says() for racer in racers}
    assert len(answers) == 1
    pid = int(answers.pop().split()[0])
    assert (folder / "server.log").read_text().count("Ready to accept connections") == 1
    for racer in racers[:5]:
        racer.kill()
    for racer in racers[5:]:
        racer.go()
        assert racer.says() == "left"
    gone(pid)


def test_coming_while_the_last_one_leaves_always_gets_a_living_server(folder: Path) -> None:
    for round_ in range(12):
        with start_or_join(folder) as server, client(server) as ask:
            assert ask.incr("rounds") == round_ + 1


def test_stale_files_are_recognised(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "server.json").write_text('{"instance":"0123456789abcdef","socket":"server.sock","host":"elsewhere"}')
    (folder / "server.sock").write_text("not even a socket")
    for name in ("users.lock", "start.lock", "server.lock"):
        (folder / name).write_text(str(os.getpid()))
    with start_or_join(folder) as server:
        assert client(server).ping()


@pytest.mark.parametrize("record", ["", "{", "[]", '{"instance": 1}'])
def test_a_damaged_record_is_no_record(folder: Path, record: str) -> None:
    with start_or_join(folder) as server:
        pid = server.pid
    gone(pid)
    (folder / "server.json").write_text(record)
    with start_or_join(folder) as server:
        assert client(server).ping()


def test_a_stranger_on_the_socket_is_not_taken_for_our_server(folder: Path, tmp_path: Path) -> None:
    with start_or_join(new_directory("stranger")) as stranger:
        folder.mkdir(parents=True)
        (folder / "server.sock").symlink_to(stranger.url.removeprefix("unix://"))
        (folder / "server.json").write_text('{"instance":"0123456789abcdef","socket":"server.sock","host":"x"}')
        with start_or_join(folder) as server:
            assert server.pid != stranger.pid
            assert client(stranger).ping()
            assert client(server).config_get("dir")["dir"] == str(folder.resolve())


def test_a_folder_with_a_long_or_odd_path(tmp_path: Path) -> None:
    folder = new_directory("long") / ("ü %25 #?'\" " * 9) / "data"
    with start_or_join(folder) as server, client(server) as ask:
        assert ask.set("k", "v")
        socket = Path(ask.config_get("unixsocket")["unixsocket"])
        assert not socket.is_relative_to(folder)
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        pid, url = server.pid, server.url
        with start_or_join(folder) as joined:
            assert (joined.pid, joined.url) == (pid, url)
        os.kill(pid, signal.SIGKILL)
        gone(pid)
        server.ensure()
        assert server.url == url
        assert ask.get("k") == b"v"
    gone(server.pid)
    eventually(lambda: not socket.parent.exists(), "the private directory is removed")
    stop_leftovers(folder)


def test_an_odd_path_that_is_short_enough(tmp_path: Path) -> None:
    folder = new_directory("odd") / "ü %25 #?'\" x"
    with start_or_join(folder) as server:
        assert (folder / "server.sock").is_socket()
        assert client(server).ping()
    stop_leftovers(folder)


def test_a_forked_child_keeps_the_server_for_itself(folder: Path, children: ExitStack) -> None:
    code = """
from pathlib import Path
from headrace.server.embedded import start_or_join
server = start_or_join(Path({folder!r}))
if os.fork():
    server.close()
    tell(server.pid, server.url)
    os._exit(0)
wait()
server.close()
tell('child closed')
wait()
"""
    child = children.enter_context(Child(code.format(folder=str(folder))))
    pid, url = child.says().split()
    assert child.ends() == 0
    # the child asks nothing of anybody, it only is there; a server that was stopping would not be joined
    with start_or_join(folder) as server:
        assert server.pid == int(pid)
    assert cast(Any, redis.Redis).from_url(url).ping()
    child.go()
    assert child.says() == "child closed"
    gone(int(pid))
    child.go()
