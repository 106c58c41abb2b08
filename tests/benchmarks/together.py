"""How much faster clients train together than one after the other: the training alone, in this process.

On a CPU the time is that of the processor, one thread, so that other work on the machine counts for little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from models.data import ClientData
from models.methods import find
from models.spec import DataConfig, EvaluationConfig, ModelConfig, RunSpec, TrainingConfig, WireConfig

NUM_CLIENTS = 100
NUM_TRAIN = 80
FEATURE_DIM = 50
NUM_CLASSES = 10


def speedup(net: str, side: int, batch_size: int, device: str) -> float:
    """Return how many times as long clients of this net take one after the other, with images of this side."""
    from models.batched import Together, group_size
    from models.nets import NetShelf, load_net_arrays, net_arrays
    from models.participant import Participant
    from models.training import train

    spec, shelf = _spec(net, batch_size, device), NetShelf()
    method = find(spec.method)
    clients = [
        Participant(spec, method, str(index), _data(index, side, spec), shelf=shelf).client
        for index in range(NUM_CLIENTS)
    ]
    start = net_arrays(clients[0].context.net)
    size = group_size(clients[0].context.device)

    def alone() -> None:
        for client in clients:
            load_net_arrays(client.context.net, start)
            train(client, spec.training, seed=0)

    def together() -> None:
        load_net_arrays(clients[0].context.net, start)
        for begin in range(0, NUM_CLIENTS, size):
            group = Together(spec.training)
            for client in clients[begin : begin + size]:
                group.add(client, seed=0)
            group.train()

    together()  # warms up
    return _taken_s(alone, device) / _taken_s(together, device)


def _taken_s(work: Callable[[], None], device: str) -> float:
    if device == "cpu":
        started = time.process_time()
        work()
        return time.process_time() - started
    import torch

    started = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - started


def _spec(net: str, batch_size: int, device: str) -> RunSpec:
    fields: dict[str, Any] = {
        "model": ModelConfig(name=net, feature_dim=FEATURE_DIM),
        "training": TrainingConfig(local_epochs=1, batch_size=batch_size, lr=0.01, momentum=0.0, device=device),  # type: ignore[arg-type]
    }
    return RunSpec(
        run_id="together",
        seed=0,
        num_rounds=1,
        method="local_only",
        method_config={},
        classes=[str(label) for label in range(NUM_CLASSES)],
        data=DataConfig(),
        evaluation=EvaluationConfig(),
        wire=WireConfig(),
        **fields,
    )


def _data(index: int, side: int, spec: RunSpec) -> ClientData:
    """Return noise; lengths differ a little, as those of clients do."""
    draw = np.random.default_rng(index)
    count = NUM_TRAIN - int(draw.integers(0, NUM_TRAIN // 4))
    x, y = draw.random((count, 1, side, side), np.float32), draw.integers(0, NUM_CLASSES, count)
    return ClientData(x, y, x[:1], y[:1], spec.classes)
