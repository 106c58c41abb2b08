"""The corpus goes through the fuzzed target, which lets nothing but refusals pass."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.fuzz import target
from tests.fuzz.target import MAX_BYTES, Target, cut, join, seeds


def test_the_corpus_raises_nothing() -> None:
    fuzzed, num_inputs = Target(), 0
    for content in seeds():
        fuzzed.take(content)
        num_inputs += 1
    assert num_inputs > 45


def test_no_input_of_the_corpus_takes_twice_the_memory_of_the_largest_message() -> None:
    fuzzed, peaks = Target(), []
    tracemalloc.start()
    try:
        for content in seeds():
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            fuzzed.take(content)
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert max(peaks) < 2 * MAX_BYTES


def test_a_fault_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*content: object, **named: object) -> None:
        raise KeyError("not a refusal")

    monkeypatch.setattr(target, "decode", faulty)
    with pytest.raises(KeyError):
        Target().take(join([b"\x90"]))


def test_inputs_are_parts() -> None:
    parts = [b"", b"abc", bytes(300)]
    assert cut(join(parts)) == parts
    assert cut(b"\xff\xffab") == [b"ab"]
