"""`edge-client export`: this client's model of a finished run as an ONNX file, tested on its own data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from edge_client.config import ClientConfig
from edge_client.data_source import open_source
from edge_client.final_model import load_final, unfinished_since
from edge_client.local_state import ConstantShelf, client_folder
from models.data import ClientData
from models.methods import find
from models.onnx_export import quantize
from models.participant import Participant
from models.predictor import Predictor
from models.spec import ConfigError, PrivacyConfig

FILE = "model.onnx"
"""What the model is called in a client's folder."""


def export(config: ClientConfig, modules: Path, out: Path | None, to_int8: bool, run_id: str = "") -> Iterator[str]:
    """Write the model, and yield lines for people: its run, its place, and how many test samples each rule gets right.

    Args:
        config: of the client.
        modules: folder of a user's own modules.
        out: the file; None for `FILE` in the client's folder.
        to_int8: whether to write a smaller one too, beside it.
        run_id: the run whose model it is to be; empty for the last finished one's.

    Raises:
        ConfigError: no such run has been finished, a package, the data or a run constant is missing, or the file
            cannot be written.
        MethodError: the method's own code fails, or its net is another one by now than that of the run.
    """
    folder = client_folder(config)
    if str(modules) not in sys.path:
        sys.path.append(str(modules))
    final, shelf = load_final(folder, run_id), ConstantShelf(folder)
    newer = [] if run_id else unfinished_since(folder)
    yield f"of run {final.spec.run_id}" + (f"; newer, without a final model: {', '.join(newer)}" if newer else "")
    spec = msgspec.structs.replace(final.spec, privacy=PrivacyConfig())  # nobody is told anything, so there is no noise
    data = open_source(spec, config).look()
    constants = shelf.named(final.constants, final.names)
    participant = Participant(spec, find(spec.method), config.client.id, data, constants)
    participant.load(final.arrays)
    path = out or folder / FILE
    participant.export(path, data.train_x.shape[1:])
    yield from _tested(path, data)
    if to_int8:
        if not len(data.train_y):
            raise ConfigError("int8 needs train samples, to see what range values have; this client has none")
        small = path.with_suffix(f".int8{path.suffix}")
        quantize(path, small, data.train_x)
        yield from _tested(small, data)


def _tested(path: Path, data: ClientData) -> Iterator[str]:
    """Yield where a model is, and its accuracies."""
    yield f"{path}: {path.stat().st_size / 1024:.0f} KiB"
    if not len(data.test_y):
        yield "  not tested: this client has no test samples"
        return
    for rule, accuracy in Predictor(path).accuracies(data.test_x, data.test_y).items():
        yield f"  {rule:<18} {accuracy:.4f} of {len(data.test_y)} test samples"
