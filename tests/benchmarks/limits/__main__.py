"""Runs the limits that are named, or all: the runtime's figures beside the least that the same machine can do.

    python -m tests.benchmarks.limits [NAME ...] [--results FOLDER] [--list]

What they find is kept in FOLDER, by default `tests/benchmarks/results/`.
"""

from __future__ import annotations

from tests.benchmarks.command import main

LIMITS = ("rounds", "wire", "indices", "disk", "memory", "growth")

if __name__ == "__main__":
    raise SystemExit(main("limits", "tests.benchmarks.limits", LIMITS))
