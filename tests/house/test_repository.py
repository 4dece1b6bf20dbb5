"""What no file of the repository holds, and what the commands and settings must keep."""

from __future__ import annotations

import re
import subprocess
import tomllib

from tests.house.repo import ROOT, files, short

# Written in pieces, so that this file does not hold what it forbids.
HOSTS = (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("debian", "org"))
REGISTRIES = [".".join(host) for host in HOSTS]
HOMES = "|".join(("ro" + "ot", "wo" + "rk", "ho" + "me", "Use" + "rs"))
MACHINE_PATHS = re.compile(rf"(?<![\w.:/~*-])/(?:{HOMES})/[\w.-]+")
BINARY = {".png", ".ico", ".parquet", ".woff2"}


def test_no_registry_and_no_path_of_a_machine() -> None:
    found: list[str] = []
    for path in files():
        if path.suffix in BINARY:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if MACHINE_PATHS.search(line) or any(host in line for host in REGISTRIES):
                found.append(f"{short(path)}:{number} {line.strip()[:120]}")
    assert not found


def test_constraints_are_plain_pins() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin)] == []


def test_core_and_extras_are_the_agreed_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = {re.split(r"[\[<>=]", name)[0] for name in project["dependencies"]}
    assert core == {"redis", "msgspec"}
    assert {"embedded", "spark", "ledger", "dashboard", "telemetry", "all"} <= set(project["optional-dependencies"])


def test_make_lists_its_commands() -> None:
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    shown = set(re.findall(r"^  (\w+)", listed, flags=re.MULTILINE))
    assert shown >= {"setup", "demo", "test", "check", "bench", "docs"}


def test_ci_runs_the_check_and_then_the_tests() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r"^make check\nmake test$", script, flags=re.MULTILINE)
    assert "set -euo pipefail" in script
