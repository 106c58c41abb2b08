"""Windows of the day."""

import pytest

from edge_client.windows import Window, read_window


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("22:00-06:00", Window(1320, 360)),
        ("00:00-24:00", Window(0, 1440)),
        ("09:30-09:31", Window(570, 571)),
        ("9:30-10:00", None),
        ("08:00-08:00", None),
        ("08:60-09:00", None),
        ("08:00-24:01", None),
        ("08:00-25:00", None),
        ("08:00", None),
        ("", None),
    ],
)
def test_a_text_is_a_window_or_none(text: str, window: Window | None) -> None:
    assert read_window(text) == window


@pytest.mark.parametrize(
    ("window", "inside", "outside"),
    [
        (Window(570, 600), (570, 599), (0, 569, 600, 1439)),
        (Window(1320, 360), (1320, 1439, 0, 359), (360, 720, 1319)),
        (Window(0, 1440), (0, 1439), ()),
        (Window(1320, 1440), (1320, 1439), (0, 1319)),
    ],
)
def test_it_holds_from_its_start_to_before_its_end(
    window: Window, inside: tuple[int, ...], outside: tuple[int, ...]
) -> None:
    assert [minute for minute in (*inside, *outside) if window.holds(minute)] == list(inside)
