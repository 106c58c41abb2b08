"""`python -m tests.fuzz [libFuzzer options]`: looks for inputs that raise.

With `-runs=N` it ends after so many inputs. An input that raises ends it too, and is written to a file `crash-*`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["wire", "coordinator", "models.methods"]):
    from tests.fuzz.target import CORPUS, Target, seeds

MAX_LEN = 4096
"""Bytes of the largest input that is tried."""


def main() -> None:
    """Fuzz until libFuzzer ends the process, in a folder that has the seeds."""
    target = Target()
    folder = Path(tempfile.mkdtemp(prefix="protoedge-fuzz-"))
    for number, content in enumerate(seeds()):
        (folder / f"seed-{number}").write_bytes(content)
    print(f"inputs that are new go to {folder}; the tests replay those in {CORPUS}, a line of hex each", flush=True)
    atheris.Setup([sys.argv[0], str(folder), f"-max_len={MAX_LEN}", *sys.argv[1:]], target.take)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
