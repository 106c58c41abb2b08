"""Messages on a stream: however it is cut, the messages that went in come out, and large frames are not copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from wire.limits import PIPE_BYTES
from wire.sockets.stream import MAX_FRAMES, SMALL_BYTES, TOGETHER_BYTES, Inbox, StreamError, pieces
from wire.tensors import Buffer

LARGE = bytes(range(256)) * 1024
MESSAGES = [[b"header"], [b"header", b""], [b"", b"buffer", b"timing"], [bytes(200)]]
MIXED = [[b"small"], [b"header", LARGE, b"timing"], [LARGE], [b"header", LARGE[: SMALL_BYTES + 1]], [b"small"]]


def stream(messages: Iterable[Sequence[Buffer]]) -> bytes:
    return b"".join(pieces(messages))


def read(inbox: Inbox, content: bytes, most: int = PIPE_BYTES) -> list[list[Buffer]]:
    """Let the bytes come, at most so many at a time, and return the messages that they make."""
    came: list[list[Buffer]] = []
    left = memoryview(content)
    while left:
        room = inbox.room()
        count = min(len(room), len(left), most)
        assert count > 0
        room[:count], left = left[:count], left[count:]
        inbox.filled(count)
        while (frames := inbox.take()) is not None:
            came.append(frames)
    return came


def test_many_messages_in_one_read_come_out_in_order() -> None:
    assert read(Inbox(), stream(MESSAGES * 3)) == MESSAGES * 3


@pytest.mark.parametrize("at", range(len(stream(MESSAGES)) + 1))
def test_a_stream_may_be_cut_anywhere(at: int) -> None:
    inbox, content = Inbox(), stream(MESSAGES)
    first = read(inbox, content[:at])
    assert first == MESSAGES[: len(first)]
    assert inbox.has_more == (stream(first) != content[:at])
    assert first + read(inbox, content[at:]) == MESSAGES
    assert not inbox.has_more


@pytest.mark.parametrize("most", [1000, SMALL_BYTES - 1, SMALL_BYTES, PIPE_BYTES])
def test_large_frames_between_small_ones(most: int) -> None:
    came = read(Inbox(), stream(MIXED), most)
    assert came == MIXED
    assert [type(frame) for frame in came[1]] == [bytes, memoryview, bytes]


def test_small_frames_of_every_size_pass_the_end_of_what_is_read_at_a_time() -> None:
    messages = [[bytes([size % 256]) * size, b"end"] for size in range(0, SMALL_BYTES + 1, SMALL_BYTES // 64)]
    assert read(Inbox(), stream(messages), 50_000) == messages


def test_what_was_taken_stays_as_it_was() -> None:
    inbox = Inbox()
    first = read(inbox, stream([[b"first", LARGE]]))
    read(inbox, stream([[b"other", bytes(len(LARGE))]]))
    assert first == [[b"first", LARGE]]
    assert isinstance(first[0][1], memoryview)
    assert first[0][1].readonly


def test_a_message_that_has_come_waits_until_it_is_taken() -> None:
    inbox, content = Inbox(), stream([[b"a"], [b"b"]])
    assert not inbox.has_more
    inbox.room()[: len(content)] = content
    inbox.filled(len(content))
    assert (inbox.take(), inbox.has_more) == ([b"a"], True)
    assert (inbox.take(), inbox.has_more) == ([b"b"], False)
    assert inbox.take() is None


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ((0, 0, 0, 0), f"expected a message of 1 to {MAX_FRAMES} frames, got one of 0"),
        ((MAX_FRAMES + 1, 1, 1, 1), f"expected a message of 1 to {MAX_FRAMES} frames, got one of {MAX_FRAMES + 1}"),
        ((2, 2**31, 2**31 + 1, 0), f"expected a message of up to {PIPE_BYTES} bytes, got one of {PIPE_BYTES + 1}"),
    ],
)
def test_what_cannot_be_a_message_is_refused_by_what_it_announces(numbers: Sequence[int], told: str) -> None:
    content = b"".join(number.to_bytes(4, "little") for number in numbers)
    with pytest.raises(StreamError, match=told):
        read(Inbox(), content)


def test_small_messages_are_written_together_and_large_frames_as_they_lie() -> None:
    small = [b"s" * 1000]
    written = list(pieces([small, small, [b"header", LARGE, b"timing"], small]))
    assert [len(piece) > SMALL_BYTES for piece in written] == [False, True, False]
    assert written[1] is LARGE


def test_no_more_is_written_together_than_lets_the_other_end_begin_early() -> None:
    written = list(pieces([b"s" * 1000] for _ in range(1000)))
    assert max(map(len, written)) <= TOGETHER_BYTES < 2 * min(map(len, written[:-1]))


def test_a_message_is_asked_for_when_those_before_it_are_written() -> None:
    asked: list[int] = []

    def messages() -> Iterable[Sequence[Buffer]]:
        for number in range(3):
            asked.append(number)
            yield [b"header", LARGE]

    writing = pieces(messages())
    assert [next(writing), next(writing)][1] is LARGE
    assert asked == [0]
