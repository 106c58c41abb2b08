"""Figures as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence


def show_bytes(size_bytes: float) -> str:
    """Return a size such as `512 B`, `8.2 KiB` or `1.3 GiB`."""
    size, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1023.95:  # what would be shown as 1024.0 is one of the next unit
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def show_seconds(duration_s: float) -> str:
    """Return a duration such as `4.2 ms`, `0.84 s`, `3 min 05 s` or `2 h 10 min`."""
    if duration_s < 0.0995:
        return f"{1000 * duration_s:.1f} ms"
    if duration_s < 59.995:
        return f"{duration_s:.2f} s"
    minutes, seconds = divmod(round(duration_s), 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def show_mebibytes(size_bytes: float) -> str:
    """Return a size such as `38.1 MiB`, whatever its magnitude."""
    return f"{size_bytes / 2**20:,.1f} MiB"


def show_accuracy(accuracy: float) -> str:
    """Return a share of 1 such as `0.931`."""
    return f"{accuracy:.3f}"


def show_count(count: float) -> str:
    """Return a count such as `20,000`."""
    return f"{count:,}"


def show_joules(energy_j: float) -> str:
    """Return an energy such as `4.2 mJ`, `0.52 J`, `31.0 J` or `4.2 kJ`."""
    if energy_j < 0.0995:
        return f"{1000 * energy_j:.1f} mJ"
    if energy_j >= 9999.5:
        return f"{energy_j / 1000:,.1f} kJ"
    return f"{energy_j:.2f} J" if energy_j < 9.995 else f"{energy_j:,.1f} J"


def show_skew(skew_s: float) -> str:
    """Return how far a clock is ahead, such as `+1.2 ms` or `-3.00 s`."""
    return f"{'-' if skew_s < 0 else '+'}{show_seconds(abs(skew_s))}"


def show_epsilon(epsilon: float) -> str:
    """Return the epsilon of differential privacy, such as `2.38`, never as less than it is."""
    return f"{math.ceil(100 * epsilon) / 100:,.2f}"


def show_numbers(numbers: Sequence[int]) -> str:
    """Return ascending numbers such as `1, 4 to 7, 9`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    return ", ".join(" to ".join(map(str, span)) for span in spans)
