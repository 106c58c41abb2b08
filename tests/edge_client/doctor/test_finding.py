"""How findings are told, and what the command ends with."""

from __future__ import annotations

import pytest

from edge_client.doctor.finding import Finding, as_plain, as_text, exit_code, found
from wire.exit_codes import ExitCode

WELL = Finding("memory", "4.0 GiB", figures={"total_bytes": 2.0**32})
ODD = Finding("clock", "9 s behind", "set it")
BAD = Finding("keys", "cannot be used", "make some", ExitCode.BAD_CONFIG)
REFUSED = Finding("enrolment", "not let in", "enroll it", ExitCode.REFUSED)


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], ExitCode.FINISHED),
        ([WELL, ODD], ExitCode.FINISHED),
        ([BAD, WELL], ExitCode.BAD_CONFIG),
        ([REFUSED, BAD], ExitCode.REFUSED),
    ],
)
def test_the_worst_decides_the_exit_code(findings: list[Finding], code: ExitCode) -> None:
    assert exit_code(findings) == code
    assert as_plain(findings)["exit_code"] == code


def test_what_is_not_well_has_its_advice_below_it() -> None:
    assert as_text([WELL, ODD, BAD]).splitlines() == [
        "ok    memory       4.0 GiB",
        "warn  clock        9 s behind",
        "                   -> set it",
        "FAIL  keys         cannot be used",
        "                   -> make some",
        "1 failed, 1 to look at",
    ]
    assert as_text([WELL]).splitlines()[-1] == "all is well"


def test_programs_get_the_figures() -> None:
    told = as_plain([WELL, BAD])["findings"]
    assert [(each["level"], each["advice"]) for each in told] == [("ok", None), ("fail", "make some")]
    assert told[0]["figures"] == {"total_bytes": 2.0**32}


def test_a_look_that_fails_says_why_in_its_place() -> None:
    def look() -> str:
        raise OSError("no such thing")

    assert found("cpu", look) == Finding("cpu", "unknown (OSError: no such thing)")


def test_what_may_not_be_looked_at_is_not_well() -> None:
    def look() -> str:
        raise PermissionError(13, "Permission denied", "/closed")

    seen = found("disk", look)
    assert (seen.level, seen.told) == ("warn", "unknown (/closed: Permission denied)")
