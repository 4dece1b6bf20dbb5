"""What goes wrong with an embedded server is said in one typed error: what happened, where, and what to do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from headrace.errors import EmbeddedUnavailable
from headrace.server import embedded_program
from headrace.server.embedded import start_or_join
from headrace.server.embedded_folder import Folder
from tests.tools.processes import alive, eventually, new_directory


def a_program(folder: Path, script: str) -> Path:
    program = folder / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def not_installed(_: str) -> None:
    """In the place of `importlib.util.find_spec`."""


def unoccupied(folder: Path) -> None:
    eventually(lambda: not Folder(folder).occupied(), f"nobody lives in {folder}", 15)


def test_a_program_that_dies_at_start_is_quoted(tmp_path: Path) -> None:
    program = a_program(tmp_path, "for i in 1 2 3 4 5 6 7 8; do echo line $i; done; echo 'Fatal: bad thing'; exit 3")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "server.log").write_text("of an earlier run\n")
    with pytest.raises(EmbeddedUnavailable, match=r"exit code 3(.|\n)*Fatal: bad thing(.|\n)*HEADRACE_URL") as caught:
        start_or_join(tmp_path / "data", program=program)
    assert "line 1" not in str(caught.value)
    assert "earlier" not in str(caught.value)
    unoccupied(tmp_path / "data")


def test_a_program_that_cannot_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedUnavailable, match=r"cannot run .*nowhere"):
        start_or_join(tmp_path / "data", program=tmp_path / "nowhere")
    unoccupied(tmp_path / "data")


def test_data_that_the_server_refuses_is_left_alone_and_quoted(tmp_path: Path) -> None:
    (tmp_path / "appendonlydir").mkdir()
    manifest = tmp_path / "appendonlydir" / "appendonly.aof.manifest"
    manifest.write_text("file nonsense\n")
    with pytest.raises(EmbeddedUnavailable, match=r"manifest"):
        start_or_join(tmp_path)
    assert manifest.read_text() == "file nonsense\n"
    unoccupied(tmp_path)


def test_a_program_that_never_answers_is_given_up(tmp_path: Path) -> None:
    program = a_program(tmp_path, "echo starting slowly; exec sleep 1000")
    with pytest.raises(EmbeddedUnavailable, match=r"within 0.5 s(.|\n)*starting slowly"):
        start_or_join(tmp_path / "data", program=program, timeout=0.5)
    unoccupied(tmp_path / "data")  # the supervisor saw its only user go, and ended what never became a server


def test_no_program_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(embedded_program.importlib.util, "find_spec", not_installed)
    with pytest.raises(EmbeddedUnavailable, match=r"pip install 'headrace\[embedded\]', or set HEADRACE_URL"):
        start_or_join(tmp_path / "data")


def test_a_program_on_the_path_serves_when_none_is_packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = embedded_program.find_program(tmp_path)
    (tmp_path / "redis-server").symlink_to(packaged)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(embedded_program.importlib.util, "find_spec", not_installed)
    assert embedded_program.find_program(tmp_path) == tmp_path / "redis-server"


def test_a_packaged_program_that_lost_its_mode_is_made_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "package" / "valkey-server"
    program.parent.mkdir()
    shutil.copyfile(embedded_program.find_program(tmp_path), program)
    program.chmod(0o644)
    monkeypatch.setattr(embedded_program, "_packaged", lambda: program)
    # an installation that may not be changed: a copy runs
    with monkeypatch.context() as readonly:
        real = Path.chmod

        def chmod(path: Path, mode: int) -> None:
            if path == program:
                raise PermissionError(1, "Operation not permitted", str(path))
            real(path, mode)

        readonly.setattr(Path, "chmod", chmod)
        (tmp_path / "data").mkdir()
        copy = embedded_program.find_program(tmp_path / "data")
        assert copy == tmp_path / "data" / "valkey-server"
        assert copy.read_bytes() == program.read_bytes()
        assert os.access(copy, os.X_OK)
        assert embedded_program.find_program(tmp_path / "data") == copy
    # one that may: the program itself
    assert embedded_program.find_program(tmp_path) == program
    assert os.access(program, os.X_OK)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(EmbeddedUnavailable, match=r"cannot use the folder .*data.*HEADRACE_DIR"):
        start_or_join(tmp_path / "data")
    assert (tmp_path / "data").read_text() == "a file"


@pytest.mark.parametrize("made", [True, False], ids=["there already", "to be made"])
def test_a_folder_that_is_not_writable(made: bool) -> None:
    folder = new_directory("readonly")
    folder.chmod(0o555)
    folder.parent.chmod(0o711)
    asroot = os.geteuid() == 0
    if asroot:  # for whom everything is writable
        os.seteuid(65534)
    try:
        with pytest.raises(EmbeddedUnavailable, match=r"not writable: set HEADRACE_DIR"):
            start_or_join(folder if made else folder / "data")
    finally:
        if asroot:
            os.seteuid(0)


def test_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "server.json.new").symlink_to("/dev/full")  # the device that is always full
    with pytest.raises(EmbeddedUnavailable, match=r"The disk is full: free some space, or set HEADRACE_URL"):
        start_or_join(tmp_path)
    unoccupied(tmp_path)


@pytest.mark.parametrize("again", [True, False], ids=["and made anew", "and gone"])
def test_a_folder_that_was_removed_under_its_users_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, again: bool
) -> None:
    """Two servers for one path, and jobs that nobody finds: said once, when the first connects anew or leaves."""
    folder = tmp_path / "data"
    first = start_or_join(folder)
    old = first.pid
    shutil.rmtree(folder)
    if again:
        with start_or_join(folder) as second:
            assert second.pid != old
            assert caplog.messages == []
            first.ensure()
            assert first.pid == second.pid
    first.close()
    first.close()
    (said,) = caplog.messages
    assert f"the folder {folder} was removed or replaced while this process used its embedded server" in said
    eventually(lambda: not alive(old), "the server without a folder ends with its last user", 15)
    if again:
        unoccupied(folder)


def test_nothing_is_told_of_a_folder_that_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with start_or_join(tmp_path / "data") as first, start_or_join(tmp_path / "data") as second:
        first.ensure()
        second.ensure()
    unoccupied(tmp_path / "data")
    assert caplog.messages == []
