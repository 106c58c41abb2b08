"""A stream that never raises."""

from __future__ import annotations

import io
import os

import pytest

from wire.sockets.outlet import Outlet


class Full(io.StringIO):
    """A stream whose disk is full, and that counts how often it was tried."""

    num_tried = 0

    def write(self, text: str) -> int:
        self.num_tried += 1
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        self.num_tried += 1
        raise OSError(28, "No space left on device")


def test_it_writes_and_flushes() -> None:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="latin-1")
    outlet = Outlet(stream)
    assert outlet.write("é→") == 2
    assert buffer.getvalue() == b""
    outlet.flush()
    assert buffer.getvalue() == b"\xe9\\u2192"


def test_nothing_is_tried_after_a_failure() -> None:
    stream = Full()
    outlet = Outlet(stream)
    for _ in range(3):
        assert outlet.write("text") == 4
        outlet.flush()
    assert stream.num_tried == 1
    assert not outlet.isatty()


def test_a_failing_flush_ends_it_too() -> None:
    stream = Full()
    outlet = Outlet(stream)
    outlet.flush()
    outlet.write("text")
    assert stream.num_tried == 1


def test_a_closed_outlet_swallows_all() -> None:
    stream = io.StringIO()
    outlet = Outlet(stream)
    outlet.close()
    outlet.close()
    assert outlet.write("text") == 4
    assert stream.closed
    assert not Outlet(stream).isatty()


@pytest.mark.filterwarnings("error")
def test_what_a_broken_pipe_left_over_goes_nowhere() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        outlet = Outlet(stream)
        outlet.write("text")
        outlet.flush()


def test_whoever_asks_hears_why_a_stream_is_given_up_once() -> None:
    heard: list[Exception] = []
    outlet = Outlet(Full(), heard.append)
    outlet.write("text")
    outlet.flush()
    assert [str(error) for error in heard] == ["[Errno 28] No space left on device"]


def test_a_stream_that_there_is_not_takes_all() -> None:
    outlet = Outlet(None)
    assert outlet.write("text") == 4
    outlet.flush()
    assert not outlet.isatty()


def test_what_else_a_stream_has_is_there() -> None:
    with open(os.devnull, "w") as stream:
        assert Outlet(stream).fileno() == stream.fileno()
