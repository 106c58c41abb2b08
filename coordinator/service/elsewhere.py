"""Runs of the queue that another process goes on with by itself, or has ended: what the service makes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coordinator.service.hosted import Plan
from coordinator.store.holder import holder
from coordinator.store.schema import settle
from coordinator.store.store import StoreError
from models.spec import ConfigError
from wire.exit_codes import GIVEN_UP

if TYPE_CHECKING:
    from coordinator.service.daemon import Service


class Elsewhere:
    """Looks after them, for the service whose runs they are."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def look(self, at: float) -> None:
        """Try again what was held up, of those that another process had what it has let go of and not ended."""
        held_up = self._service.held_up
        due = [plan for run_id, plan in self._service.plans.items() if held_up.is_due(run_id, at)]
        for plan in due:
            run_id = plan.folder.run_id
            if held_up.is_elsewhere(run_id):
                if holder(plan.folder.store_path) is not None:
                    held_up.put_off(run_id, at)
                elif not self._is_over(plan):
                    held_up.drop(run_id)
        if due:
            self._service.fill()

    def _is_over(self, plan: Plan) -> bool:
        try:
            return self.book(plan, plan.folder.read_summary(), went_on=True)
        except (ConfigError, OSError):  # which is told as the run is begun
            return False

    def book(self, plan: Plan, summary: Mapping[str, Any], went_on: bool) -> bool:
        """Book a run as over if its summary says so, and say whether it does.

        One that only waits is over if it has finished: it may have failed before it was queued to go on.
        """
        run_id, outcome = plan.folder.run_id, str(summary.get("outcome", ""))
        if outcome not in (GIVEN_UP if went_on else ("finished",)):
            return False
        self._service.book_over(run_id, outcome, str(summary.get("reason", "")))
        with contextlib.suppress(StoreError):
            settle(plan.folder.store_path)
        self._service.reporters.make(plan.folder, plan.config)
        return True
