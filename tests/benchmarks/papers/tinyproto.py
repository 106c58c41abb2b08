"""TinyProto, Tables 1 and 4: what travels, and what CPS and APS each do to accuracy."""

from __future__ import annotations

from collections.abc import Sequence

from tests.benchmarks.papers.samples import CIFAR10, DIGITS, THINNED_MNIST
from tests.benchmarks.papers.study import CUDA, WAYS, Federation, Outcome, PaperTable, Row, Runs, Scale
from tests.benchmarks.result import Claim, Findings

SETTINGS = (
    "data.num_clients=20",
    "model.name=cnn",
    "model.feature_dim=500",
    "run.num_rounds=50",
    "evaluation.every=5",
    "training.lr=0.01",
    "training.momentum=0",
    "training.local_epochs=1",
)
DIRICHLET = ("data.partition=dirichlet", "data.alpha=0.1")
FOUR_NETS = (
    'model.names=["resnet8", "mobilenet_v2", "shufflenet_v2", "efficientnet_b0"]',
    "run.num_rounds=300",
    "data.min_size=1",
    *CUDA,
)
"""Of the paper, beside `SETTINGS`."""

ABOUT = (
    "As in the paper: 20 clients, Dirichlet 0.1, 500 features of which CPS keeps 50, one epoch of SGD with 0.01 on "
    "batches of 32 in a round, a quarter of each client's samples for its own tests, by the nearest local "
    "prototype."
)
SMALLER = (
    "At this scale: scikit-learn's digits, and 6,000 images of MNIST in a published split, 50 rounds of one small net, "
    "three seeds; the paper's accuracies are for CIFAR-10, 300 rounds and four nets at once."
)
WHOLE = "Three seeds. CIFAR-10 comes as JPEG files here; the regulariser is that of the authors' code."

FEDPROTO = ("method.name=fedproto", "method.weighting=uniform", "method.regularizer_weight=10")
PARTS = {"none": (False, False), "CPS": (True, False), "APS": (False, True), "both": (True, True)}
PAPER = {
    "FP, both": 86.20, "FT, none": 87.62, "FT, CPS": 87.68, "FT, APS": 88.69, "FT, both": 89.06,
}  # fmt: skip
"""On CIFAR-10."""


def table(scale: Scale) -> PaperTable:
    """Return CIFAR-10 on four nets, or two small federations of one net."""
    if scale == "gpu":
        settings = (*SETTINGS, *DIRICHLET, *FOUR_NETS)
        return PaperTable([ABOUT, WHOLE], [Federation("CIFAR-10", CIFAR10, settings, ROWS, ORDERS, 3, _costs)])
    digits = (*SETTINGS, *DIRICHLET)
    return PaperTable(
        [ABOUT, SMALLER],
        [
            Federation("Digits", DIGITS, digits, ROWS, ORDERS, 3, _costs),
            Federation("MNIST", THINNED_MNIST, SETTINGS, ROWS, ORDERS, 3, _costs),
            Federation("MNIST, FT with both, by encoding", THINNED_MNIST, SETTINGS, ENCODINGS),
        ],
    )


def part(family: str, switches: str) -> Row:
    """Return the row of TinyProto over FedProto (FP) or FedTGP (FT) with these parts of it."""
    cps, aps = (str(switch).lower() for switch in PARTS[switches])
    name = f"{family}, {switches}"
    own = (
        f"method.name=tinyproto-{family.lower()}",
        "method.prototype_dim=50",
        f"method.cps={cps}",
        f"method.aps={aps}",
    )
    return Row(name, own, PAPER.get(name))


ROWS = (
    Row("FedProto", FEDPROTO, 86.02),
    Row("FedTGP", ("method.name=fedtgp",), 87.62),
    *(part(family, switches) for family in ("FP", "FT") for switches in PARTS),
)

ORDERS = (
    ("FT, both", "FedTGP", "FP, both", "FedProto"),
    ("FT, both", "FT, APS", "FT, CPS", "FT, none"),
)

ENCODINGS = tuple(
    Row(encoding, (*part("FT", "both").settings, *(() if encoding == "f32" else (f"wire.value_dtype={encoding}",))))
    for encoding in ("f32", "f16", "bf16", "i8")
)
"""Not the paper's, which counts elements."""


def _costs(outcomes: Sequence[Outcome], runs: Runs) -> Findings:
    """Find how many times the elements of TinyProto its peers send; the paper has 10 times."""
    named = {outcome.row.name: outcome.runs[0] for outcome in outcomes}
    claims = []
    for whole, sparse in (("FedProto", "FP, both"), ("FedTGP", "FT, both")):
        ways = {way: [named[name].per_round(way, "elements") for name in (whole, sparse)] for way in WAYS}
        seen = ", ".join(f"{way} {more:,.0f} to {fewer:,.0f}" for way, (more, fewer) in ways.items())
        is_ten = all(more == 10 * fewer for more, fewer in ways.values())
        claims.append(Claim(f"{whole} sends 10 times the elements of {sparse}", is_ten, f"a round, seed 0: {seen}"))
    return Findings(claims=claims)
