"""Head calibration of a frozen ImageNet network on CIFAR-10: ten clients, Dirichlet 0.1, and no torch on any of them.

The network is EfficientNet-Lite0 in an ONNX file. 400 training images and 100 test images of each class are used.
Clients tell of their features' class statistics and train heads of their own, for 10 epochs in each of 2 rounds, so
that theirs are trained to the end; accuracies are on the global test set.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from models import methods
from models.methods.api import Facts
from tests.benchmarks import job
from tests.benchmarks.cifar import WIDTH, Sizes, write_efficientnet, write_images
from tests.benchmarks.figure import Figure
from tests.benchmarks.torch_free import make_environment

NUM_CLIENTS, NUM_CLASSES, NUM_ROUNDS = 10, 10, 2
NUM_TRAIN, NUM_TEST = 400, 100

TIMEOUT_S = 4 * 3600.0

MIN_LEAD = 10.0
"""Points by which the calibrated head is to be ahead of the mean of the clients' own heads."""

SETTINGS = (
    "method.name=headcal",
    "model.name=onnx",
    f"model.feature_dim={WIDTH}",
    "data.dataset=npz",
    "data.pool=train",
    "data.alpha=0.1",
    "data.test_fraction=0",
    f"data.num_clients={NUM_CLIENTS}",
    f"run.num_rounds={NUM_ROUNDS}",
    "training.local_epochs=10",
    "training.lr=0.01",
    "evaluation.test=global",
    "report.page=false",
)


def run(out: Path) -> list[Figure]:
    """Return accuracies, bytes and memory.

    Raises:
        Skipped: the images or a package is missing.
    """
    images, backbone = out / "cifar.npz", out / "efficientnet_lite0.onnx"
    write_images(images, NUM_TRAIN, NUM_TEST)
    sizes = write_efficientnet(backbone)
    settings = [*SETTINGS, f"data.root={images}", f"model.path={backbone}"]
    done = job.run(settings, out, timeout_s=TIMEOUT_S, python=make_environment(out))
    return [*_accuracies(done.summary), *_bytes(done.summary, sizes), *_memory(done.summary)]


def _accuracies(summary: dict[str, Any]) -> list[Figure]:
    """Return those of the calibrated head and of the clients' own, in percent, all on the same samples."""
    last = {rule: 100 * summary["accuracy_by_rule"][rule]["last"] for rule in ("global_head", "head")}
    lead = last["global_head"] - last["head"]
    return [
        Figure.of("calibrated head", "%", [last["global_head"]]),
        Figure.of("own heads, mean", "%", [last["head"]]),
        Figure.of("lead", "points", [lead], target=MIN_LEAD, at_least=True),
    ]


def _bytes(summary: dict[str, Any], sizes: Sizes) -> list[Figure]:
    """Return what a client sent and received, and what it would have for a single round of averaged nets."""
    ways = {way: summary[way]["payload_bytes"] / NUM_CLIENTS for way in ("uplink", "downlink")}
    averaged = _averaged_bytes(sizes)
    return [
        *(Figure.of(f"payload per client, {way}, whole run", "B", [count]) for way, count in ways.items()),
        Figure.of("fedavg: payload per client, both ways, one round", "B", [averaged]),
        Figure.of("fedavg's for one round, of all of ours", "x", [averaged / sum(ways.values())]),
    ]


def _averaged_bytes(sizes: Sizes) -> int:
    """Return what FedAvg predicts for the same network with a head, up and down, once there is an average."""
    (exchange,), head = methods.find("fedavg").exchanges, NUM_CLASSES * (WIDTH + 1)
    facts = Facts(
        config=None, num_classes=NUM_CLASSES, num_public_classes=0, feature_dim=WIDTH, num_train=1,
        class_counts=[1] * NUM_CLASSES, known_classes=range(NUM_CLASSES), num_parameters=sizes.num_parameters + head,
        num_buffers=sizes.num_buffers, round=2, rounds_completed=1, num_task_classes=NUM_CLASSES, num_seen=NUM_CLASSES,
        metrics={},
    )  # fmt: skip
    up = exchange.uplink.sizes(exchange.uplink_dims(facts))
    return up.payload_bytes + exchange.downlink.sizes(exchange.downlink_dims(facts)).payload_bytes


def _memory(summary: dict[str, Any]) -> list[Figure]:
    return [
        Figure.of(f"peak memory {kind}", "MiB", [summary["memory"][f"{kind}_peak_rss_bytes"] / 2**20])
        for kind in job.KINDS
    ]
