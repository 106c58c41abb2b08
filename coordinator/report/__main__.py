"""`python -m coordinator.report RUN_DIR FORM...`: what a run is to leave behind, made by a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from coordinator.report.command import leave_behind
from coordinator.store.run_folder import RunFolder

if __name__ == "__main__":
    for line in leave_behind(RunFolder.open(Path(sys.argv[1])), sys.argv[2:]):
        print(line, flush=True)
