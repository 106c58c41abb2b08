"""FedProx: federated averaging whose clients are held back from drifting away from the global model.

T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith. "Federated Optimization in Heterogeneous Networks."
MLSys 2020, https://arxiv.org/abs/1812.06127 (equation numbers are this paper's).

Deviations: all clients train the same number of epochs, so the local objective is what remains of the method; the
average is federated averaging's, weighted by train samples over all clients of the cohort.
"""

from __future__ import annotations

from models.methods.api import Method
from models.methods.fedavg import METHODS as BASELINES
from models.methods.fedavg import Config as BaselineConfig
from models.spec import NotNegativeReal


class Config(BaselineConfig, frozen=True):
    """`proximal_weight` is mu of Eq. (2); 0 gives federated averaging."""

    proximal_weight: NotNegativeReal = 0.01


(_BASELINE,) = BASELINES

METHODS = (
    Method(
        name="fedprox",
        summary="fedavg, with local models pulled towards the global one",
        paper="Li et al., MLSys 2020",
        config=Config,
        exchanges=_BASELINE.exchanges,
        server=_BASELINE.server,
        client="models.methods.fedprox.client:FedProxClient",
        default_rule=_BASELINE.default_rule,
        global_rules=_BASELINE.global_rules,
        check=_BASELINE.check,
        shares_model=True,
    ),
)
