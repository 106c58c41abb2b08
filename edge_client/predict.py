"""`edge-client predict`: the classes of images by an exported model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from models.datasets.pixels import read_image, require_pillow
from models.predictor import Predictor
from models.spec import ConfigError


def predict(model: Path, images: Sequence[Path], rule: str = "") -> Iterator[str]:
    """Yield a line for each image: its path, its class, and how sure that is.

    Args:
        model: a file that `edge-client export` wrote.
        images: files of any size, which are scaled to what the model takes.
        rule: what to predict by; empty for the headline rule of the run.

    Raises:
        ConfigError: the model cannot be used, has no such rule, or takes no images; or, behind the last line, some of
            the images could not be read.
    """
    predictor = Predictor(model)
    chosen = rule or predictor.default_rule
    predictor.check_rule(chosen)
    require_pillow()
    if len(predictor.shape) != 3 or predictor.shape[1] != predictor.shape[2]:
        raise ConfigError(f"{model}: expected a model of square images, this one takes {list(predictor.shape)}")
    num_unread, (channels, size, _) = 0, predictor.shape
    for path in images:
        try:
            image = read_image(path, channels, size)
        except ValueError as error:
            num_unread += 1
            yield f"{path}  not read: {error}"
        else:
            yield f"{path}  {_said(predictor, image, chosen)}"
    if num_unread:
        raise ConfigError(f"expected images that can be read, got {num_unread} of {len(images)} that cannot")


def _said(predictor: Predictor, image: np.ndarray, rule: str) -> str:
    made = predictor.predict(predictor.normalized(image[np.newaxis]), rule)
    measure = "at distance" if rule in predictor.prototype_rules else "with probability"
    return f"{predictor.labels[int(made.classes[0])]}  {measure} {made.measures[0]:.3f}"
