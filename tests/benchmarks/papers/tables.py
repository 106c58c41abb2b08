"""The papers' tables that there are, each a module of its name beside this one."""

from __future__ import annotations

from importlib import import_module

from tests.benchmarks.papers.study import PaperTable, Scale

NAMES = (
    "fedpa", "fedpa_ablation", "fedpa_fashion", "fedpa_features", "fedpa_participation",
    "gfpl", "gfpl_cifar", "gfpl_lambda",
    "hgp",
    "refprotofl", "refprotofl_ablation",
    "tinyproto", "tinyproto_dims", "tinyproto_varied",
)  # fmt: skip


def find(name: str, scale: Scale) -> PaperTable:
    """Return a table at a scale."""
    table: PaperTable = import_module(f"tests.benchmarks.papers.{name}").table(scale)
    return table


def title(name: str) -> str:
    """Return which table of which paper it is, on what data."""
    return str(import_module(f"tests.benchmarks.papers.{name}").__doc__).splitlines()[0].rstrip(".")
