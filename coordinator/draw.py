"""Writes which samples each client of a loopback run is given: a process of its own, as it loads the data set.

    python -I -m coordinator.draw RUN_DIR MODULES

The clients draw the same by themselves; this is for people who want to see it, or to use it again (`indices`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import in_words, is_full
from models.data import load_dataset
from models.partition import drawn_indices
from models.spec import ConfigError
from wire.exit_codes import ExitCode
from wire.sockets.pipe import end_with_parent


def draw(path: Path) -> None:
    """Write `indices.npz` into a run folder."""
    folder = RunFolder.open(path)
    config = folder.read_config()
    dataset = load_dataset(config.data)
    spec = config.spec(folder.run_id, dataset.classes)
    folder.write_indices(drawn_indices(spec.data, dataset.labels(spec.data), spec.seed, spec.plan.all_classes))


def main() -> None:
    """Draw for the run folder that the command line names."""
    end_with_parent()
    run_dir, modules = sys.argv[1:]
    sys.path.append(modules)
    try:
        draw(Path(run_dir))
    except (ConfigError, OSError) as error:
        print(in_words(error, Path(run_dir)), file=sys.stderr)
        sys.exit(ExitCode.NO_SPACE if is_full(error) else ExitCode.BAD_CONFIG)


if __name__ == "__main__":
    main()
