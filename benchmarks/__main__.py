"""Measures, and prints each figure with its target beside it.

python -m benchmarks                      everything
python -m benchmarks batches memory       some of it
python -m benchmarks --quick --json bench-out/figures.json
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks import batches, blocked, flat, longest, memory, single, waiting
from benchmarks.figures import Figure, keep
from benchmarks.ground import fresh
from benchmarks.sizes import FULL, QUICK, TINY, Sizes
from headrace import clock

SUITES: dict[str, Callable[[Sizes], Iterator[Figure]]] = {
    "single": single.run,
    "batches": batches.run,
    "memory": memory.run,
    "longest": longest.run,
    "flat": flat.run,
    "blocked": blocked.run,
    "idle": waiting.idle,
    "wake": waiting.wake,
    "late": waiting.late,
}
#: prints a table of its own
TRANSPORTS = "transports"


def _parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Figures beside their targets.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join([*SUITES, TRANSPORTS])}; default: all")
    size = parser.add_mutually_exclusive_group()
    for name, sizes, text in (("quick", QUICK, "a minute"), ("tiny", TINY, "seconds: only to see that it runs")):
        size.add_argument(f"--{name}", dest="sizes", action="store_const", const=sizes, default=FULL, help=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    given = parser.parse_args(words)
    unknown = [name for name in given.names if name not in SUITES and name != TRANSPORTS]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}")
    return given


def _transports(sizes: Sizes) -> None:
    calls = {FULL: "3000", QUICK: "1000"}.get(sizes, "200")
    subprocess.run([sys.executable, "-m", "benchmarks.transports", calls], check=True)


def main(words: Sequence[str] | None = None) -> dict[str, list[Figure]]:
    """Run what was asked for; answers all figures."""
    given = _parse(words)
    with fresh() as ground:
        server = ground.app.where.split(" at ")[0]
    print(f"{server} without persistence, Unix socket, {os.cpu_count()} cores; ratios to baselines of the same run")
    figures: dict[str, list[Figure]] = {}
    started = clock.monotonic()
    for name in given.names or [*SUITES, TRANSPORTS]:
        print(f"\n{name}", flush=True)
        if name == TRANSPORTS:
            _transports(given.sizes)
            continue
        figures[name] = []
        for figure in SUITES[name](given.sizes):
            figures[name].append(figure)
            print(figure.line(), flush=True)
    _sum_up(figures, clock.monotonic() - started)
    if given.json:
        keep(given.json, figures, server)
    return figures


def _sum_up(figures: dict[str, list[Figure]], seconds: float) -> None:
    verdicts = [figure for some in figures.values() for figure in some if figure.met is not None]
    missed = [figure.name for figure in verdicts if not figure.met]
    print(f"\n{len(verdicts) - len(missed)} of {len(verdicts)} targets met, {seconds:.0f} s")
    for name in missed:
        print(f"  missed: {name}")


if __name__ == "__main__":
    main()
