"""HGP's ablation at the scale of a CPU: MNIST in 5 tasks of 2 classes, on a small transformer that knows Fashion-MNIST.

The paper's Table 3 has CIFAR-100 in 10 tasks on ViT-B/16 that knows ImageNet-21k. Here a transformer of 4 blocks and
width 64 is pretrained on Fashion-MNIST's 60,000 training images and frozen; 10 clients then learn MNIST's digits two by
two, each task spread over them by Dirichlet 0.05, 3 rounds of 3 epochs a task. 500 training images and 100 test images
of each digit are used, `--full` takes 2,000 and all, 5 rounds of 5 epochs as the paper, and three seeds. Prompts have 8
rows of keys and values in the first 2 blocks. Rows of one net are trained alike by Adam, as in the paper with 3e-3 for
prompts; the whole net takes 3e-4. Both files are read where `fedpa` and `fedpa_fashion` have them.

Accuracies are final averages: the mean over tasks after the last one, of the global model on the global test set.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.generative import GenerativePrototypes
from models.pretrain import main as pretrain
from tests.benchmarks.figure import Figure, Skipped
from tests.benchmarks.mnist_split import SAMPLES
from tests.benchmarks.papers import study

SEEDS = (0, 1, 2)

NET = ("model.name=vit", "model.feature_dim=64", "model.depth=4", "model.num_heads=4", "model.patch_size=7")

SETTINGS = (
    *NET,
    "run.store=memory",
    "tasks.num_tasks=5",
    "data.partition=sample-dirichlet",
    "data.alpha=0.05",
    "data.test_fraction=0",
    "data.num_clients=10",
    "training.optimizer=adam",
    "training.clip_norm=1",
    "training.batch_size=16",
    "evaluation.test=global",
    "evaluation.rule=global_head",
)

SMALL = ("data.min_size=2", "run.num_rounds=15", "training.local_epochs=3", "evaluation.every=3")
FULL = ("data.min_size=6", "run.num_rounds=25", "training.local_epochs=5", "evaluation.every=5")

PROMPT = ("method.name=hgp", "method.tuning=prompt", "method.prompt_rows=8", "training.lr=3e-3")
WHOLE = ("training.lr=3e-4",)
NO_OLD, NO_CURRENT = "method.rebalance_old=false", "method.rebalance_current=false"

ROWS = (
    study.Row("FedAvg", ["method.name=fedavg", *WHOLE]),
    study.Row("full fine-tuning", ["method.name=hgp", "method.tuning=full", *WHOLE, NO_OLD, NO_CURRENT], "30.58"),
    study.Row("prompt", [*PROMPT, NO_OLD, NO_CURRENT], "52.29"),
    study.Row("prompt + CR_old", [*PROMPT, NO_CURRENT], "81.91"),
    study.Row("prompt + CR_cur", [*PROMPT, NO_OLD], "85.43"),
    study.Row("prompt + both", [*PROMPT], "90.16"),
)

MIN_LEAD = 1.0
"""Points by which both rebalancings are to be ahead of each alone."""


def run(out: Path, full: bool) -> list[Figure]:
    """Print the study's tables and whether the paper's order holds.

    Raises:
        Skipped: a file of images is not there.
    """
    common = [*SETTINGS, *(FULL if full else SMALL), *mnist(out, full), f"model.weights={weights(out)}"]
    results = study.run(ROWS, SEEDS if full else SEEDS[:1], common, out)
    means = {result.row.name: statistics.mean(final_averages(result)) for result in results}
    print(f"\n{biases(results, out)}\n\n{matrix(results[-1])}\n\n{verdict(means)}", flush=True)
    made = [Figure.of(f"{each.row.name}: final average accuracy", "%", final_averages(each)) for each in results]
    return [sampling(), *made, *study.figures(results)]


def sampling() -> Figure:
    """Return how long an epoch's features of ViT-B/16 and 100 classes take to draw, from 1,000 Gaussians."""
    random = np.random.default_rng(0)
    means, variances = random.random((2, 1000, 768), np.float32)
    mixture = GenerativePrototypes(means, variances, np.arange(1000) % 100, random.integers(2, 50, 1000))
    walls_s = []
    for _ in range(5):
        started = time.perf_counter()
        mixture.sample(25_600, random, scale=3.0)
        walls_s.append(time.perf_counter() - started)
    return Figure.of("sampling 25,600 features of width 768", "s", walls_s, target=0.5)


def mnist(out: Path, full: bool) -> list[str]:
    """Return the settings of MNIST, or of a part with as many images of each digit, the last 10,000 being for tests.

    Raises:
        Skipped: the file of all images is not there.
    """
    if not SAMPLES.exists():
        raise Skipped(f"there is no {SAMPLES.name} in {SAMPLES.parent}")
    num_train, num_test = (2000, 10_000) if full else (500, 100)
    path = out / f"mnist-{num_train}.npz"
    with np.load(SAMPLES) as pooled:
        x, y = pooled["x"], pooled["y"]
    train = [np.flatnonzero(y[:60_000] == digit)[:num_train] for digit in range(10)]
    test = [60_000 + np.flatnonzero(y[60_000:] == digit)[:num_test] for digit in range(10)]
    rows = np.concatenate([*train, *test])
    np.savez(path, x=x[rows], y=y[rows], test_from=sum(map(len, train)))
    return ["data.dataset=npz", f"data.root={path}"]


def weights(out: Path) -> Path:
    """Return the pretrained transformer, which is made once in a study's folder.

    Raises:
        Skipped: there are no images to pretrain it on.
    """
    path = out / "vit.safetensors"
    if not path.exists():
        settings = [f"--set={setting}" for setting in (*NET, "data.dataset=fashion-mnist", "training.local_epochs=5")]
        if pretrain([str(path), *settings]):
            raise Skipped("the transformer cannot be pretrained on Fashion-MNIST")
    return path


def final_averages(result: study.Result, rule: str = "global_head") -> list[float]:
    """Return the final average accuracy of each seed, in percent."""
    return [100 * summary["tasks"]["final_average_accuracy"][rule] for summary in result.summaries]


def biases(results: Sequence[study.Result], out: Path) -> str:
    """Return final average accuracies beside how one-sided heads and features of clients are, as aligned lines."""
    lines = [f"{'':18s}{'FAA %':>8s}{'paper %':>9s}{'entropy of responses':>22s}{'feature bias':>14s}"]
    for result in results:
        entropy = statistics.mean(value for each in result.summaries for value in each["tasks"]["response_entropy"])
        bias = first_feature_bias(out / result.summaries[0]["run_id"])
        shown = f"{bias:14.3f}" if bias is not None else f"{'n/a':>14s}"
        accuracy = statistics.mean(final_averages(result))
        lines.append(f"{result.row.name:18s}{accuracy:8.2f}{result.row.paper:>9s}{entropy:22.3f}{shown}")
    note = "entropy: of what clients' own heads predict at each task's end, in nats; feature bias: of round 1, seed 0"
    return "\n".join([*lines, note])


def first_feature_bias(folder: Path) -> float | None:
    """Return the mean distance of two clients' means of a class in round 1, None where the method tells none."""
    path = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    told: list[dict[str, Any]] = [line["metrics"] for line in lines if line["kind"] == "exchange"]
    bias = told[0].get("feature_bias") if told else None
    return float(bias) if bias is not None else None


def matrix(result: study.Result) -> str:
    """Return the accuracy on each task after each task, of the first seed."""
    rows = result.summaries[0]["tasks"]["accuracy"]["global_head"]
    lines = [
        f"after task {task}: " + " ".join(f"{100 * each:6.2f}" for each in row) for task, row in enumerate(rows, 1)
    ]
    return "\n".join([f"{result.row.name}, accuracy on tasks 1, 2 ..", *lines])


def verdict(means: Mapping[str, float]) -> str:
    """Return whether the rows stand in the paper's order, both rebalancings ahead of each alone."""
    parts = [means["prompt + CR_old"], means["prompt + CR_cur"]]
    lead = means["prompt + both"] - max(parts)
    in_order = means["full fine-tuning"] < means["prompt"] < min(parts)
    word = "holds" if in_order and lead >= MIN_LEAD else "does not hold"
    order = " < ".join(f"{name} {means[name]:.2f}" for name in sorted(means, key=lambda name: means[name]))
    return (
        f"claim: full fine-tuning < prompt < one rebalancing < both, by {MIN_LEAD:g} point: {word} "
        f"(both {lead:+.2f} points from the better one; {order})"
    )
