"""A model that `models.onnx_export` wrote, at work: the class of a sample by any of its rules. Needs onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from models.data import scaled
from models.nets.onnx_session import OnnxSession
from models.onnx_export import FEATURES, METADATA_KEY
from models.spec import ConfigError, nearest


class _About(msgspec.Struct):
    """What every exported model says of itself."""

    classes: list[str]
    shape: list[int]
    mean: list[float]
    std: list[float]
    rules: dict[str, list[int]]
    prototype_rules: list[str]
    default_rule: str


class Predictions(NamedTuple):
    """Classes of the label map [B], and how sure each is: a probability, or for a prototype the distance to it."""

    classes: np.ndarray
    measures: np.ndarray


class Predictor:
    """An exported model."""

    def __init__(self, path: Path, provider: str = "auto", threads: int = 1) -> None:
        """Load it.

        Raises:
            ConfigError: the file is no exported model, or onnxruntime is missing or cannot load it.
        """
        self._session = OnnxSession(path, provider, threads)
        text = self._session.metadata.get(METADATA_KEY)
        expected = "expected a model that `edge-client export` wrote"
        if text is None:
            raise ConfigError(f"{path}: {expected}, got another ONNX file")
        try:
            self.about = msgspec.json.decode(text, type=dict[str, Any])
            msgspec.convert(self.about, _About)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: {expected}: {error}") from None

    @property
    def labels(self) -> list[str]:
        """The label map."""
        return [str(name) for name in self.about["classes"]]

    @property
    def rules(self) -> list[str]:
        """The rules that it can predict by."""
        return list(self.about["rules"])

    @property
    def prototype_rules(self) -> list[str]:
        """Those whose measure is a distance."""
        return list(self.about["prototype_rules"])

    @property
    def default_rule(self) -> str:
        """The headline rule of the run, or the head where the model does not have that."""
        return self.about["default_rule"] if self.about["default_rule"] in self.rules else "head"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.about["shape"])

    def normalized(self, x: np.ndarray) -> np.ndarray:
        """Return images, float32 in 0..1, as the model was trained on them."""
        return scaled(x, self.about["mean"], self.about["std"])

    def check_rule(self, rule: str) -> None:
        """Refuse a rule that the model does not have.

        Raises:
            ConfigError: as the summary says.
        """
        if rule not in self.rules:
            raise ConfigError(f"unknown rule {rule!r}; {nearest(rule, self.rules)}")

    def predict(self, x: np.ndarray, rule: str) -> Predictions:
        """Return what a rule takes samples [B, *shape] for, of the type and with values as the model was trained on."""
        features_BD, scores_BA = self._session.run(x, [FEATURES, rule])
        best_B = scores_BA.argmax(axis=1)
        best_score_B = scores_BA[np.arange(len(x)), best_B]
        if rule in self.prototype_rules:
            squares_B = np.square(features_BD).sum(axis=1) - best_score_B
            measures_B = np.sqrt(np.maximum(squares_B, 0))
        else:
            measures_B = 1 / np.exp(scores_BA - best_score_B[:, None]).sum(axis=1)
        return Predictions(np.array(self.about["rules"][rule])[best_B], measures_B)

    def accuracies(self, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
        """Return by rule which share of samples it gets right, of one at least."""
        return {rule: float((self.predict(x, rule).classes == y).mean()) for rule in self.rules}
