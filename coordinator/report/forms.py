"""The forms that `coordinator report` can give a run, by name; importing this loads nothing else."""

from __future__ import annotations

PAGE = "html"

EXPORTS = ("tensorboard", "mlflow")
"""Those that other programs show."""

FORMS = (PAGE, "table", "json", "csv", *EXPORTS)

AUTOMATIC = {"page": PAGE, **dict(zip(EXPORTS, EXPORTS, strict=True))}
"""Those that a run has made at its end, by the key of `[report]` that asks for it."""
