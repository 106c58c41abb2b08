"""Image files that were read: what is read again, and what is not."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from edge_client import image_cache
from edge_client.image_cache import ImageCache
from models.spec import DataConfig

Image = pytest.importorskip("PIL.Image")

CONFIG = DataConfig(image_size=2, channels=1)


def paint(path: Path, value: int) -> Path:
    Image.new("L", (2, 2), value).save(path)
    return path


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list that every file is added to when it is read."""
    reads: list[Path] = []
    read_bytes = Path.read_bytes

    def read(path: Path) -> bytes:
        reads.append(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    return reads


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = count_reads(monkeypatch)
    cache, good, bad = ImageCache(CONFIG), paint(tmp_path / "1.png", 51), tmp_path / "2.png"
    bad.write_bytes(b"junk")
    for _ in range(2):
        assert cache.pixels(cache.digest(good)).ravel().tolist() == [pytest.approx(0.2)] * 4
        assert cache.fault(cache.digest(bad)) == "not an image"
    assert reads == [good, bad]
    paint(bad, 255)
    assert cache.fault(cache.digest(bad)) == ""
    assert cache.pixels(cache.digest(bad)).max() == 1


def test_what_was_forgotten_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, one, two = ImageCache(CONFIG), paint(tmp_path / "1.png", 1), paint(tmp_path / "2.png", 2)
    digests = [cache.digest(path) for path in (one, two)]
    cache.forget_others()
    cache.digest(two)
    cache.forget_others()
    with pytest.raises(KeyError):
        cache.pixels(digests[0])
    reads = count_reads(monkeypatch)
    assert [cache.digest(path) for path in (one, two)] == digests
    assert reads == [one]


def test_a_file_that_stays_is_read_once_image_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, good, bad = ImageCache(CONFIG), paint(tmp_path / "1.png", 1), tmp_path / "2.png"
    bad.write_bytes(b"junk")
    reads = count_reads(monkeypatch)
    for _ in range(3):
        assert [cache.fault(cache.digest(path)) for path in (good, bad)] == ["", "not an image"]
        cache.forget_others()
    assert reads == [good, bad]


def test_files_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    cache = ImageCache(CONFIG)
    for number in range(10):
        paths = [paint(tmp_path / f"{number}.png", number), tmp_path / f"junk-{number}.png"]
        paths[1].write_bytes(b"junk %d" % number)
        for path in paths:
            cache.digest(path)
            path.unlink()
        cache.forget_others()
    assert [len(held) for held in (cache._seen, cache._pixels, cache._faults, cache._asked)] == [2, 1, 1, 0]


def test_pixels_can_be_shared(tmp_path: Path) -> None:
    cache = ImageCache(CONFIG)
    digest = cache.digest(paint(tmp_path / "1.png", 1))
    samples = np.stack([cache.pixels(digest)])
    cache.share([digest], samples)
    assert np.shares_memory(cache.pixels(digest), samples)


def test_a_disk_that_fails_for_a_moment_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, path = ImageCache(CONFIG), paint(tmp_path / "1.png", 1)

    def fail(path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fail)
        with pytest.raises(OSError, match="Input/output error"):
            cache.digest(path)
    assert cache.fault(cache.digest(path)) == ""


def test_a_file_that_is_too_large_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_cache, "MAX_FILE_BYTES", 10)
    reads = count_reads(monkeypatch)
    with pytest.raises(OSError, match="larger than 0 MiB"):
        ImageCache(CONFIG).digest(paint(tmp_path / "1.png", 1))
    assert reads == []
