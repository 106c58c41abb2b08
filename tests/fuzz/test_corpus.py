"""The corpus goes through the fuzzed target, which lets nothing but refusals pass."""

from __future__ import annotations

import pytest

from tests.fuzz import target
from tests.fuzz.target import Target, cut, join, seeds


def test_the_corpus_raises_nothing() -> None:
    fuzzed, num_inputs = Target(), 0
    for content in seeds():
        fuzzed.take(content)
        num_inputs += 1
    assert num_inputs > 45


def test_a_fault_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*content: object, **named: object) -> None:
        raise KeyError("not a refusal")

    monkeypatch.setattr(target, "decode", faulty)
    with pytest.raises(KeyError):
        Target().take(join([b"\x90"]))


def test_inputs_are_frames() -> None:
    frames = [b"", b"abc", bytes(300)]
    assert cut(join(frames)) == frames
    assert cut(b"\xff\xffab") == [b"ab"]
