"""The least that could train a simulation's clients: one after the other, each with a net and tensors of its own.

`rounds` starts this file as a process of its own, on one thread. Of the project's code it has the nets alone; nothing
is evaluated, encoded, stored or put back, and every client's net stays in memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

TIMEOUT_S = 600.0
LR = 0.01


class Work(NamedTuple):
    """What there is to train: files of samples and of each client's rows, and how."""

    samples: str
    indices: str
    num_clients: int
    net: str
    feature_dim: int
    local_epochs: int
    batch_size: int
    num_rounds: int


class Taken(NamedTuple):
    """How long a round takes, by the clock and of the processor."""

    wall_s: float
    processor_s: float


def rounds(work: Work) -> list[Taken]:
    """Return how long each round takes."""
    command = [sys.executable, "-I", __file__, json.dumps(work)]
    done = subprocess.run(command, check=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE, text=True)
    return [Taken(*taken) for taken in json.loads(done.stdout)]


def _train_all(work: Work) -> list[Taken]:
    import torch

    from models.nets import build_net

    torch.set_num_threads(1)
    with np.load(Path(work.samples)) as samples, np.load(Path(work.indices)) as rows:
        x = torch.from_numpy(samples["x"].astype(np.float32) / np.float32(255))[:, None]
        y = torch.from_numpy(samples["y"].astype(np.int64))
        parts = [
            torch.from_numpy(rows[f"client{index:02d}_train"].astype(np.int64)) for index in range(work.num_clients)
        ]
    clients = [(build_net(work.net, tuple(x.shape[1:]), work.feature_dim, 10), x[part], y[part]) for part in parts]
    taken = []
    for _ in range(work.num_rounds):
        started = Taken(time.monotonic(), time.process_time())
        for client in clients:
            _train(work, *client)
        taken.append(Taken(time.monotonic() - started.wall_s, time.process_time() - started.processor_s))
    return taken


def _train(work: Work, net, x, y) -> None:  # type: ignore[no-untyped-def]
    import torch
    from torch.nn.functional import cross_entropy

    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    net.train()
    for _ in range(work.local_epochs):
        for rows in torch.randperm(len(y)).split(work.batch_size):
            optimizer.zero_grad()
            cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()


if __name__ == "__main__":
    print(json.dumps(_train_all(Work(*json.loads(sys.argv[1])))))
