"""The ServerApp: FedAvg that notes when each round's work goes out and when all is back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flwr.app import ArrayRecord, Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from tests.benchmarks.peers.marks import Marks
from tests.benchmarks.peers.payloads import PAYLOADS

app = ServerApp()


class Noting(FedAvg):  # type: ignore[misc]
    """FedAvg that writes marks."""

    def __init__(self, noted: Marks, **settings: Any) -> None:
        super().__init__(**settings)
        self._noted = noted

    def configure_train(self, *given: Any, **named: Any) -> list[Message]:
        """Return what is to be sent."""
        messages = list(super().configure_train(*given, **named))
        self._noted.sent()
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """Average what came."""
        came = list(replies)
        self._noted.came(sum(reply.has_content() for reply in came))
        return super().aggregate_train(server_round, came)


@app.main()  # type: ignore[untyped-decorator]
def main(grid: Grid, context: Context) -> None:
    """Serve until the last round is over."""
    settings = context.run_config
    strategy = Noting(
        Marks(settings["marks"]),
        fraction_evaluate=0.0,
        min_train_nodes=settings["needed"],
        min_available_nodes=settings["needed"],
    )
    arrays = ArrayRecord([PAYLOADS[settings["payload"]].zeros()])
    strategy.start(grid, arrays, num_rounds=settings["rounds"], timeout=settings["deadline"])
