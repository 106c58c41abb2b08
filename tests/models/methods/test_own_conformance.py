"""A method that lives elsewhere is held to what all methods must keep, and what it forgets or shares is found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.markdown import code_blocks

README = (ROOT / "README.md").read_text(encoding="utf-8")

SHARED = ("class HeadClient(Client):\n", "class HeadClient(Client):\n    seen = []\n\n")

COUNTED = ("return Head(weights.copy()", "self.seen.append(0)\n        return Head(weights * len(self.seen)")

HANDED_ON = (
    "class HeadClient(Client):\n",
    """class HeadClient(Client):
    def before_training(self, exchange, seed):
        HeadClient.seen = len(self.context.train_y)

""",
)

USED = ("return Head(weights.copy()", "return Head(weights * self.seen")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ((), ""),
        (
            (('return {"weights": self.weights}', 'return {"round": np.zeros(1)}'),),
            "test_a_server_goes_on_from_its_arrays",
        ),
        ((SHARED, COUNTED), "test_two_runs_are_equal_in_bits"),
        ((HANDED_ON, USED), "test_clients_whose_steps_alternate_are_not_aware_of_each_other"),
    ],
)
def test_the_readmes_method_keeps_it_and_what_forgets_or_shares_state_does_not(
    changes: tuple[tuple[str, str], ...], failing: str, tmp_path: Path
) -> None:
    (text,) = [block for block in code_blocks(README, "python") if block.startswith("# mymethod.py")]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "mymethod.py").write_text(text)
    asked = [
        str(Path(__file__).with_name("test_conformance.py")),
        "--method",
        "mymethod:METHOD",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *asked], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    found = re.findall(r"^FAILED .*::(\w+)", done.stdout, re.M)
    assert (failing in found) if failing else done.returncode == 0, done.stdout
