"""One policy for images of all kinds: so many channels, one size, 0..1.

Grey, palette, 1-bit, CMYK and 8-bit colour become grey or RGB as Pillow converts them; transparency is dropped, so a
transparent red pixel is red. 16-bit grey is scaled by 65535. What has a larger or an unknown range is refused, never
clipped. A photo that says how it was held is turned upright.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from models.spec import ConfigError

MAX_PIXELS = 50_000_000
"""A larger image is refused before it is decoded, which would take more memory than a board has."""

if TYPE_CHECKING:
    from PIL.Image import Image


def require_pillow() -> None:
    """Raise `ConfigError` with the way to get it where Pillow is missing."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise ConfigError("[data] reading images needs Pillow: pip install pillow") from None


def read_image(file: Path | BinaryIO, channels: int, size: int) -> np.ndarray:
    """Return the image of a file, float32 [channels, size, size] in 0..1.

    Raises:
        ValueError: it is not an image, is cut short, is too large, or has a range that is not known.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    if isinstance(file, Path) and file.exists() and not file.is_file():
        raise ValueError("not a file")  # to open a pipe would wait for whoever writes to it
    try:
        with Image.open(file) as image:
            _check_size(image)
            return image_array(ImageOps.exif_transpose(image), channels, size)
    except UnidentifiedImageError:
        raise ValueError("not an image") from None
    except Exception as error:  # a broken file makes a decoder raise anything
        raise ValueError(str(error) or type(error).__name__) from None


def _check_size(image: Image) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(f"expected at most {MAX_PIXELS:,} pixels, got {image.width} x {image.height}")


def image_array(image: Image, channels: int, size: int) -> np.ndarray:
    """Return a Pillow image as float32 [channels, size, size] in 0..1; raises as `read_image` does."""
    from PIL import Image

    if image.mode.startswith("I") or image.mode == "F":
        grey = Image.fromarray(_sixteen_bits(image))
        return np.repeat(_resized(grey, size)[None], channels, axis=0)
    if image.mode in ("P", "PA"):
        image = image.convert("RGBA")  # keeps Pillow from warning of transparency that is dropped next
    pixels = _resized(image.convert("L" if channels == 1 else "RGB"), size) / np.float32(255)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _sixteen_bits(image: Image) -> np.ndarray:
    """Return a grey image of more than 8 bits, float32 [height, width] in 0..1."""
    values = np.asarray(image)
    if image.mode == "F" or values.min(initial=0) < 0 or values.max(initial=0) > 65535:
        raise ValueError(f"expected 8 or 16 bits per channel, got mode {image.mode} with values to {values.max()}")
    return values.astype(np.float32) / np.float32(65535)


def _resized(image: Image, size: int) -> np.ndarray:
    from PIL import Image

    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image, np.float32)
