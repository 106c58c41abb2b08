"""TinyProto, Figures 4 and 5: fewer features kept, beside nets that have no more."""

from __future__ import annotations

from tests.benchmarks.papers.samples import CIFAR10, DIGITS
from tests.benchmarks.papers.study import Federation, PaperTable, Row, Scale
from tests.benchmarks.papers.tinyproto import ABOUT, DIRICHLET, FOUR_NETS, SETTINGS, WHOLE
from tests.benchmarks.papers.tinyproto_varied import fedproto

SIZES = (10, 25, 50, 100)

ROWS = (
    Row("FedTGP, d = 500", ("method.name=fedtgp",)),
    *(Row(f"FT, s = {size}", ("method.name=tinyproto-ft", f"method.prototype_dim={size}")) for size in SIZES),
    *(Row(f"FP, s = {size}", ("method.name=tinyproto-fp", f"method.prototype_dim={size}")) for size in SIZES),
    *(Row(f"FedProto, d = {size}", (*fedproto(size), f"model.feature_dim={size}")) for size in SIZES),
)

ORDERS = (
    *((f"FT, s = {size}", "FedTGP, d = 500") for size in SIZES),
    *((f"FP, s = {size}", f"FedProto, d = {size}") for size in SIZES),
)
"""Of Figure 4 and of Figure 5."""

SMALL = ("run.num_rounds=20", "data.min_size=1", "training.threads=1")

SMALLER = (
    "At this scale: scikit-learn's digits, 20 rounds of one small net, one seed, clients of one sample or more (of ten "
    "in `tinyproto`)."
)


def table(scale: Scale) -> PaperTable:
    """Return CIFAR-10 on four nets, or digits on a small one."""
    samples, own, num_seeds = (DIGITS, SMALL, 1) if scale == "cpu" else (CIFAR10, FOUR_NETS, 3)
    settings = (*SETTINGS, *DIRICHLET, *own)
    figures = "The paper's figures have no numbers; s features are kept of d = 500, FedProto's nets have d in all."
    title = "Digits" if scale == "cpu" else "CIFAR-10"
    return PaperTable(
        [ABOUT, figures, SMALLER if scale == "cpu" else WHOLE],
        [Federation(title, samples, settings, ROWS, ORDERS, num_seeds)],
    )
