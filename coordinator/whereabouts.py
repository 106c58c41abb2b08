"""Whether a run goes on and, if not, how it ended: what its folder, its service and its process say, put together.

    queued       its service's queue has it, at work or not
    running      a process of this machine has it
    stopped      its service ended it in order as it ended itself, and goes on with it
    unfinished   no process of this machine has it: it was killed, or runs elsewhere
    over         it has an outcome

The queue of a service speaks first: it also knows runs that never began, and those that were queued anew, whose
`summary.json` tells of an earlier time. But it hears nothing of a process that goes on alone with one of its runs
(`serve --resume`): as long as that has the run it is running, and of no service. What came of it by then is told by the
summary, as is what was killed before the queue had it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import psutil

from coordinator.service.queue import FILE, Entry, Queue, queue_of, service_of
from coordinator.store.holder import holder
from coordinator.store.run_folder import RunFolder
from wire.exit_codes import GIVEN_UP

State = Literal["queued", "running", "stopped", "unfinished", "over"]

NO_PROCESS = "no process of this machine has it"

IN_WORDS: dict[State, str] = {
    "queued": "queued",
    "running": "running",
    "stopped": NO_PROCESS,
    "unfinished": f"{NO_PROCESS}: it was killed, or runs elsewhere",
    "over": "over",
}
"""The states as people are told them."""


class Whereabouts(NamedTuple):
    """Where a run is.

    Attributes:
        state: one of those above.
        outcome: of one that is over: `finished`, `failed`, `interrupted` or `cancelled`; of any other, nothing.
        reason: why it is over, for people; nothing where the outcome says all.
        process: what has it in a store, if that is of this machine.
        queue: that of its service, if it is of one and no other process goes on with it.
    """

    state: State
    outcome: str
    reason: str
    process: psutil.Process | None
    queue: Queue | None


def whereabouts(folder: RunFolder, queue: Queue | None = None) -> Whereabouts:
    """Return where the run in this folder is; the queue of its service, if it is of one, is read where it is not given.

    Raises:
        ConfigError: its `summary.json` is damaged.
    """
    summary, process = folder.read_summary(), holder(folder.store_path)
    queue = queue if queue is not None else queue_of(folder)
    if queue is not None and process is not None and not _is_service(process, queue):
        return Whereabouts("running", "", "", process, None)
    entry = queue.get(folder.run_id) if queue is not None else None
    outcome = _outcome(entry, summary)
    state: State = "over"
    if not outcome:
        state = "queued" if entry is not None and entry.state == "queued" else _without_outcome(process, summary)
    return Whereabouts(state, outcome, _reason(outcome, entry, summary), process, queue)


def _is_service(process: psutil.Process, queue: Queue) -> bool:
    return process == holder(queue.folder / FILE) or service_of(process) is not None


def _outcome(entry: Entry | None, summary: Mapping[str, Any]) -> str:
    told = str(summary.get("outcome", ""))
    if entry is None:
        return told
    if entry.state == "queued":
        return ""
    later = GIVEN_UP if entry.outcome in ("", "interrupted") else ("finished",)  # as it went on without its queue
    return told if told in later else entry.outcome


def _without_outcome(process: psutil.Process | None, summary: Mapping[str, Any]) -> State:
    if process is not None:
        return "running"
    return "stopped" if summary else "unfinished"


def _reason(outcome: str, entry: Entry | None, summary: Mapping[str, Any]) -> str:
    reason = entry.reason if entry is not None and entry.outcome == outcome else ""
    if not reason and summary.get("outcome") == outcome:
        reason = str(summary.get("reason", ""))
    return reason if reason != outcome else ""
