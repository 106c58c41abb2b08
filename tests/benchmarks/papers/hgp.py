"""HGP, Table 3 and Figure 3: prompts and both classifier rebalancings, on MNIST in tasks instead of CIFAR-100."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from models.pretrain import main as pretrain
from tests.benchmarks.figure import Skipped
from tests.benchmarks.papers.samples import FOLDER, Samples, some_mnist
from tests.benchmarks.papers.study import CUDA, Federation, Measure, Outcome, PaperTable, Row, Runs, Scale
from tests.benchmarks.result import Claim, Findings, Table

NET = ("model.name=vit", "model.feature_dim=64", "model.depth=4", "model.num_heads=4", "model.patch_size=7")

SETTINGS: tuple[str, ...] = (
    *NET,
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
WHOLE = ("data.min_size=6", "run.num_rounds=25", "training.local_epochs=5", "evaluation.every=5", *CUDA)

PROMPT = ("method.name=hgp", "method.tuning=prompt", "method.prompt_rows=8", "training.lr=3e-3")
FULL = ("method.name=hgp", "method.tuning=full", "training.lr=3e-4")
NO_OLD, NO_CURRENT = "method.rebalance_old=false", "method.rebalance_current=false"

ROWS = (
    Row("FedAvg", ("method.name=fedavg", "training.lr=3e-4")),
    Row("full", (*FULL, NO_OLD, NO_CURRENT), 30.58),
    Row("prompt", (*PROMPT, NO_OLD, NO_CURRENT), 52.29),
    Row("prompt, old", (*PROMPT, NO_CURRENT), 81.91),
    Row("prompt, current", (*PROMPT, NO_OLD), 85.43),
    Row("prompt, both", PROMPT, 90.16),
)
"""By what is trained, and which classes are rebalanced."""

REBALANCED_FULL = (
    Row("full, old", (*FULL, NO_CURRENT), 62.78),
    Row("full, current", (*FULL, NO_OLD), 65.30),
    Row("full, both", FULL, 82.52),
)
"""Only at the larger scale."""

ORDERS = (
    ("prompt, both", "prompt, current", "prompt", "full"),
    ("prompt, both", "prompt, old", "prompt"),
)
ORDERS_OF_FULL = (
    ("full, both", "full, current", "full"),
    ("full, both", "full, old", "full"),
    ("prompt, both", "full, both"),
)

ABOUT = (
    "MNIST in 5 tasks of 2 digits, each spread over 10 clients by Dirichlet 0.05, and a transformer of 4 blocks and "
    "width 64 that knows Fashion-MNIST: frozen under prompts of 8 rows of keys and values in its first 2 blocks, or "
    "trained in full. Adam, 3e-3 for prompts as in the paper, 3e-4 for the whole net. The paper's accuracies are for "
    "CIFAR-100 in 10 tasks on ViT-B/16 that knows ImageNet-21k."
)
MEASURED = "Accuracies are final averages: the mean over tasks after the last one, of the global model."
SMALLER = "At this scale: 500 training and 100 test images of each digit, 3 rounds of 3 epochs a task, one seed."
LARGER = "2,000 training images of each digit and all test images, 5 rounds of 5 epochs a task, three seeds."

FINAL = Measure("final average", lambda summary: float(summary["tasks"]["final_average_accuracy"]["global_head"]))


def table(scale: Scale) -> PaperTable:
    """Return the paper's rounds, seeds and rows, or fewer on fewer images."""
    if scale == "cpu":
        mnist, settings = some_mnist(500, 100), (*SETTINGS, *SMALL)
        small = Federation("MNIST", _with_net(mnist), settings, ROWS, ORDERS, more=_biases)
        return PaperTable([ABOUT, MEASURED, SMALLER], [small], [FINAL])
    mnist, settings, rows = some_mnist(2000, 10_000), (*SETTINGS, *WHOLE), (*ROWS, *REBALANCED_FULL)
    whole = Federation("MNIST", _with_net(mnist), settings, rows, (*ORDERS, *ORDERS_OF_FULL), 3, _biases)
    return PaperTable([ABOUT, MEASURED, LARGER], [whole], [FINAL])


def _with_net(samples: Samples) -> Samples:
    """Return samples that come with the pretrained transformer."""

    def write(folder: Path) -> None:
        samples.write(folder)
        path = folder / "vit.safetensors"
        settings = [f"--set={setting}" for setting in (*NET, "data.dataset=fashion-mnist", "training.local_epochs=5")]
        if not path.exists() and pretrain([str(path), *settings]):
            raise Skipped("the transformer cannot be pretrained on Fashion-MNIST")

    return Samples((*samples.settings, f"model.weights={FOLDER}/vit.safetensors"), write)


def _biases(outcomes: Sequence[Outcome], runs: Runs) -> Findings:
    """Find how one-sided clients' own heads and features are, and whether prompts make features less so."""
    entropies = [statistics.mean(outcome.runs[0].summary["tasks"]["response_entropy"]) for outcome in outcomes]
    biases = {outcome.row.name: _feature_bias(outcome, runs) for outcome in outcomes}
    rows = [
        [name, f"{entropy:.2f}", "" if bias is None else f"{bias:.2f}"]
        for (name, bias), entropy in zip(biases.items(), entropies, strict=True)
    ]
    note = (
        "Entropy of what clients' own heads predict at the end of tasks, in nats; mean distance of two clients' means "
        "of a class after the first local training."
    )
    told = Table("Federated bias, seed 0", ["", "entropy", "feature bias"], rows, note)
    return Findings(tables=[told], claims=[_less_biased(biases["prompt"], biases["full"])])


def _less_biased(prompt: float | None, full: float | None) -> Claim:
    text = "Prompts make features less biased than full fine-tuning"
    if prompt is None or full is None:
        return Claim(text, None, "the runs' metrics are gone")
    return Claim(text, prompt < full, f"{prompt:.2f} and {full:.2f}")


def _feature_bias(outcome: Outcome, runs: Runs) -> float | None:
    """Return what the method tells of the first round, None where it tells nothing."""
    told = runs.metrics(outcome.runs[0])
    return float(told[0]["feature_bias"]) if told and "feature_bias" in told[0] else None
