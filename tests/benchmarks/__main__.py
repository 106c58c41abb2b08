"""Runs the runtime's own benchmarks: those that are named, or all but those that run only when they are named.

    python -m tests.benchmarks [NAME ...] [--results FOLDER] [--list]

What they find is kept in FOLDER, by default `results/` beside this file.
"""

from __future__ import annotations

from tests.benchmarks.command import main

BENCHMARKS = (
    "main_job", "startup", "coordination", "overhead", "memory_flat", "partition", "mnist_split",
    "simulator", "encryption", "flood", "refusals", "live_page", "torch_free", "crowd", "restart", "measuring",
    "standing", "simulator_scale", "methods",
)  # fmt: skip

ON_REQUEST = ("headcal",)
"""These take long, or packages that no extra has."""

if __name__ == "__main__":
    raise SystemExit(main("runtime", "tests.benchmarks", BENCHMARKS, ON_REQUEST))
