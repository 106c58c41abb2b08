"""The ClientApp, which computes nothing."""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from tests.benchmarks.peers.payloads import PAYLOADS

app = ClientApp()


@app.train()  # type: ignore[untyped-decorator]
def train(message: Message, context: Context) -> Message:
    """Return an array of this client's own, another one in each round, and a weight."""
    payload = PAYLOADS[context.run_config["payload"]]
    arrays = ArrayRecord([payload.answer(context.node_config["index"], message.content["config"]["server-round"])])
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=message)
