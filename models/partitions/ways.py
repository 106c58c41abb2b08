"""w-way s-shot: so many classes for each client, and so many samples of each."""

from __future__ import annotations

import numpy as np

from models.partition import ClientSplit, Labels
from models.partitions.decks import Decks, decks_for_tests
from models.spec import ConfigError, DataConfig


def w_way_s_shot(labels: Labels, config: DataConfig, random: np.random.Generator) -> list[ClientSplit]:
    """Deal each client n classes and k samples of each for training, `test_shots` of each for testing.

    With the half-ranges h of `ways` w and of `shots` s, n is drawn from max(2, w-h) .. min(K-1, w+h), where K is the
    number of classes, and k from s-h+1 .. s+h (h = 0: always s); all bounds are inclusive, as in FedProto's code for
    CIFAR-10. Its range for MNIST, s-h+1 .. s+h-2, is this one's with s and h both lower by one. Test samples come from
    the test set apart, or where there is none from what no client trains on. A client gets fewer samples of a class
    where no more are left, and its note says so.

    Raises:
        ConfigError: a range is empty, or no training sample of a class is left for a client that drew it.
    """
    present = np.unique(labels.train)
    ways = _draw_ways(len(present), config, random)
    shots = _draw_shots(config, random)
    held = [np.sort(random.choice(present, size, replace=False)).tolist() for size in ways]
    decks = Decks(labels.y, np.arange(len(labels.train)), random)
    trains = [[decks.deal(label, shots[client]) for label in held[client]] for client in range(config.num_clients)]
    _require_shots(held, trains, config)
    decks = decks_for_tests(labels, [rows for train in trains for rows in train], random)
    tests = [[decks.deal(label, config.test_shots) for label in classes] for classes in held]
    return [
        ClientSplit(np.concatenate(train), np.concatenate(test), _note(classes, train, wanted, test, config))
        for classes, train, wanted, test in zip(held, trains, shots, tests, strict=True)
    ]


def _draw_ways(num_classes: int, config: DataConfig, random: np.random.Generator) -> list[int]:
    low = max(2, config.ways - config.ways_half_range)
    high = min(num_classes - 1, config.ways + config.ways_half_range)
    if low > high:
        raise ConfigError(
            f"[data] partition = 'w-way-s-shot' with ways = {config.ways}, ways_half_range = {config.ways_half_range}: "
            f"expected between 2 and {num_classes - 1} classes a client, one fewer than the samples have"
        )
    return [int(size) for size in random.integers(low, high, config.num_clients, endpoint=True)]


def _draw_shots(config: DataConfig, random: np.random.Generator) -> list[int]:
    half = config.shots_half_range
    if half > config.shots:
        raise ConfigError(f"[data] shots_half_range = {half}: expected at most shots = {config.shots}")
    low = config.shots - half + 1 if half else config.shots
    return [int(size) for size in random.integers(low, config.shots + half, config.num_clients, endpoint=True)]


def _require_shots(held: list[list[int]], trains: list[list[np.ndarray]], config: DataConfig) -> None:
    for client, (classes, train) in enumerate(zip(held, trains, strict=True)):
        for label, rows in zip(classes, train, strict=True):
            if not len(rows):
                raise ConfigError(
                    f"[data] partition = 'w-way-s-shot' with ways = {config.ways}, shots = {config.shots}, num_clients "
                    f"= {config.num_clients}: no sample of class {label} is left for client {client}"
                )


def _note(classes: list[int], train: list[np.ndarray], wanted: int, test: list[np.ndarray], config: DataConfig) -> str:
    """Say where there were fewer samples than drawn."""
    short = [
        f"class {label}: {len(rows)} of {asked} {part}"
        for part, parts, asked in (("train", train, wanted), ("test", test, config.test_shots))
        for label, rows in zip(classes, parts, strict=True)
        if len(rows) < asked
    ]
    return f"fewer samples than drawn: {', '.join(short)}" if short else ""
