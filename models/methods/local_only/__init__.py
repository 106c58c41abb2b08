"""Local training alone: nothing is exchanged. The floor that every federated method has to beat."""

from models.methods.api import Exchange, Facts, Method
from models.spec import Section
from wire.payload import Nothing


class Config(Section, frozen=True):
    """Local training has no settings of its own."""


def _no_dims(facts: Facts) -> dict[str, int]:
    return {}


METHODS = (
    Method(
        name="local_only",
        summary="each client trains alone",
        paper="baseline",
        config=Config,
        exchanges=(Exchange("train", Nothing, Nothing, _no_dims, _no_dims),),
        server="models.methods.local_only.server:LocalOnlyServer",
        client="models.methods.local_only.client:LocalOnlyClient",
        client_numpy="models.methods.local_only.client_numpy:LocalOnlyNumpyClient",
        default_rule="head",
    ),
)
