"""Local training alone: nothing is exchanged. The floor that every federated method has to beat."""

from models.methods.api import Exchange, Method
from models.methods.exchange import no_dims
from models.spec import Section
from wire.payload import Nothing


class Config(Section, frozen=True):
    """Local training has no settings of its own."""


METHODS = (
    Method(
        name="local_only",
        summary="each client trains alone",
        paper="baseline",
        config=Config,
        exchanges=(Exchange("train", Nothing, Nothing, no_dims, no_dims),),
        server="models.methods.local_only.server:LocalOnlyServer",
        client="models.methods.local_only.client:LocalOnlyClient",
        client_numpy="models.methods.local_only.client_numpy:LocalOnlyNumpyClient",
        default_rule="head",
    ),
)
