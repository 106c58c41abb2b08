"""What keeps a device from any run, by the library below."""

from __future__ import annotations

import pytest

from edge_client import doctor


def test_this_device_has_no_problems() -> None:
    assert list(doctor.problems()) == []


def test_a_library_that_is_too_old_or_cannot_encrypt_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "libzmq_version", lambda: (4, 2, 5))
    monkeypatch.setattr(doctor, "has_curve", lambda: False)
    old, plain = doctor.problems()
    assert old == "libzmq 4.2.5 is older than 4.3: install a newer pyzmq"
    assert plain.startswith("libzmq cannot encrypt: ")
