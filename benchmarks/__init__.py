"""Figures of speed and memory beside their targets: `python -m benchmarks [NAME ...]`.

Every speed is a ratio to a raw baseline that is measured in the same run, in turns with it, so that the mood of the
machine cancels out. `docs/performance.md` says what each figure and each baseline is.
"""
