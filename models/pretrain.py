"""Trains a vision transformer on one data set in one place, and writes all of it but the head, for `[model] weights`.

    python -m models.pretrain OUT.safetensors [--config FILE] [--set table.key=value]...

The tables `[data]`, `[model]` and `[training]` are a run's; the partition does not count. For Fashion-MNIST:

    python -m models.pretrain small_vit.safetensors --set data.dataset=fashion-mnist --set model.feature_dim=64
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from models import nets, seeding
from models.data import Dataset, load_dataset
from models.methods.api import Client, ClientContext
from models.methods.plain_client import PlainClient
from models.nets.vit_weights import write_backbone
from models.settings import read_tables, source_of
from models.spec import ConfigError, DataConfig, ModelConfig, Section, TrainingConfig, read_section

if TYPE_CHECKING:
    import torch

    from models.nets import Net


class Pretraining(Section, frozen=True):
    """What is trained on what; the defaults are those of a run, but for the net and its optimizer."""

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig(name="vit", feature_dim=64)
    training: TrainingConfig = TrainingConfig(local_epochs=5, batch_size=128, optimizer="adam", lr=1e-3)


def pretrain(settings: Pretraining, out: Path, seed: int = 0, tell: Callable[[str], None] = print) -> float:
    """Train, write the weights, and return the accuracy on the data set's own test rows, or else on all rows.

    Raises:
        ConfigError: the data set or the net cannot be had.
    """
    from models.backend_torch import pick_device
    from models.evaluation import evaluate

    device = pick_device(settings.training.device)
    dataset = load_dataset(settings.data)
    seeding.set_threads(settings.training.threads)
    seeding.seed_torch(seed, "pretraining")
    train, test = _rows(dataset)
    net = _build(dataset, settings.model).to(device)
    client = PlainClient(None, None)  # type: ignore[arg-type]
    client.start(_context(net, dataset, train, device))
    _train(client, settings.training, seed, tell)
    held = _context(net, dataset, test, device)
    accuracy = evaluate(client, held.train_x, held.train_y.cpu().numpy(), ["head"])["head"] / len(test)
    write_backbone(out, nets.net_arrays(net))
    tell(f"accuracy {accuracy:.4f} on {len(test)} samples; wrote {out}")
    return accuracy


def main(words: Sequence[str] | None = None) -> int:
    """Return 0, or 2 for settings that cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m models.pretrain", description="Pretrain a vision transformer.")
    parser.add_argument("out", type=Path, metavar="OUT.safetensors")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a TOML file with [data], [model] and [training]")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="table.key=value")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(words)
    try:
        tables = read_tables(args.config, args.settings)
        where = source_of(args.config, args.settings)
        pretrain(_over_defaults(tables, where), args.out, args.seed)
    except ConfigError as error:
        print(f"models.pretrain: {error}", file=sys.stderr)
        return 2
    return 0


def _over_defaults(tables: dict[str, dict[str, Any]], where: str) -> Pretraining:
    defaults = msgspec.to_builtins(Pretraining())
    merged = {name: {**defaults.get(name, {}), **table} for name, table in tables.items()}
    return read_section(Pretraining, merged, where)


def _rows(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(dataset.y))
    return (rows, rows) if dataset.test_from is None else (rows[: dataset.test_from], rows[dataset.test_from :])


def _build(dataset: Dataset, model: ModelConfig) -> Net:
    first = dataset.take(np.zeros(1, np.int64)).x
    shape, dtype = first.shape[1:], str(first.dtype)
    return nets.build_net(model.name, shape, model.feature_dim, len(dataset.classes), dtype=dtype, **model.settings())


def _context(net: Net, dataset: Dataset, rows: np.ndarray, device: torch.device) -> ClientContext:
    import torch

    part = dataset.take(rows)
    counts = np.bincount(part.y, minlength=len(dataset.classes))
    x, y = torch.from_numpy(part.x).to(device), torch.from_numpy(part.y).to(device)
    return ClientContext("pretraining", net, device, x, y, counts)


def _train(client: Client, training: TrainingConfig, seed: int, tell: Callable[[str], None]) -> None:
    """Train epoch by epoch, with one optimizer, and tell the loss of each."""
    from models.training import make_optimizer, train

    once = msgspec.structs.replace(training, local_epochs=1)
    optimizer = make_optimizer(client.context.net.parameters(), training)
    for epoch in range(1, training.local_epochs + 1):
        loss = train(client, once, seeding.derive(seed, "pretraining", epoch), optimizer=optimizer)
        tell(f"epoch {epoch} of {training.local_epochs}: loss {loss:.4f}")


if __name__ == "__main__":
    sys.exit(main())
