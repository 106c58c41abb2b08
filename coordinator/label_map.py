"""Whether a run's label map can travel, found out before a client is told of it.

What is said of each class stands in headers, and those have limits: the names in a `Welcome`, the samples of each in a
`Ready`, and in a run of several tasks what a client's head took its test samples for, in an `Update`.
"""

from __future__ import annotations

import msgspec

from models.methods import find
from models.spec import ConfigError, RunSpec
from models.tasks import counters
from wire.encoding import encode, pack
from wire.errors import EncodeError
from wire.limits import MAX_CLASSES, MAX_SAMPLES
from wire.messages import Evaluation, Message, Update, Welcome
from wire.payload import EMPTY

ROOM_BYTES = 16 * 1024
"""What may stand beside a run's settings in a header, such as those of a device."""


def check_label_map(spec: RunSpec) -> None:
    """Refuse classes that are too many, or have too long names, for the headers that tell of them.

    Raises:
        ConfigError: the text says how many classes there are, the limit and what to do.
    """
    where = f"[data] dataset = {spec.data.dataset!r} has {spec.num_classes} classes"
    if spec.num_classes > MAX_CLASSES:
        reason = "because a client tells in one header how many samples of each it has; make fewer classes of them"
        raise ConfigError(f"{where}: expected at most {MAX_CLASSES}, {reason}")
    try:
        encode(_welcome(spec))
        encode(_update(spec), pack(EMPTY))
    except EncodeError as error:
        todo = "have fewer of them, shorter names for them, or fewer tasks ([tasks] num_tasks)"
        raise ConfigError(f"{where}, which no message can tell of: {error}; {todo}") from None


def _welcome(spec: RunSpec) -> Message:
    """Return a welcome to the run, with room for more."""
    return Welcome(0, "-" * ROOM_BYTES, 0.0, 0, msgspec.to_builtins(spec))


def _update(spec: RunSpec) -> Message:
    """Return the update with most that is counted: of the global model by all rules, and of the local one."""
    rules, plan = find(spec.method).rules, spec.plan
    num_counters = len(counters(rules, plan))
    num_global = num_counters - (0 if plan.is_trivial else spec.num_classes)
    tested = (dict.fromkeys(range(num), MAX_SAMPLES) for num in (num_global, num_counters))
    return Update(0, spec.num_rounds, 0, [Evaluation(spec.num_rounds, MAX_SAMPLES, counts) for counts in tested])
