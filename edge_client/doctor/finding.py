"""What the doctor found, one line each, and how they are told."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wire.exit_codes import ExitCode

OK, WARN, FAIL = "ok", "warn", "FAIL"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: what it is.
        told: what was found.
        advice: what to do about it, empty if nothing needs to be done.
        code: what a client would end with because of it; `FINISHED` if it could take part.
        figures: the numbers in `told`, with their units in their names.
    """

    name: str
    told: str
    advice: str = ""
    code: ExitCode = ExitCode.FINISHED
    figures: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def level(self) -> str:
        """`ok`, `warn` if something should be done, `FAIL` if it must be."""
        if self.code != ExitCode.FINISHED:
            return FAIL
        return WARN if self.advice else OK


def found(name: str, look: Callable[[], Finding | str]) -> Finding:
    """Return what a look finds; one that cannot be taken says why in its place."""
    try:
        seen = look()
    except PermissionError as error:
        advice = f"give user {os.geteuid()} access to it, or call this as the user who takes part"
        return Finding(name, f"unknown ({error.filename}: {error.strerror})", advice)
    except Exception as error:
        return Finding(name, f"unknown ({type(error).__name__}: {error})")
    return seen if isinstance(seen, Finding) else Finding(name, seen)


def exit_code(findings: Sequence[Finding]) -> ExitCode:
    """Return what the command ends with: that the coordinator refuses this device tells more than all else."""
    return max((finding.code for finding in findings), default=ExitCode.FINISHED)


def as_text(findings: Sequence[Finding]) -> str:
    """Return the findings for people, and how many of them are not well."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<4}  {finding.name:<12} {finding.told}")
        if finding.advice:
            lines.append(f"{'':<18} -> {finding.advice}")
    counts = {level: sum(finding.level == level for finding in findings) for level in (FAIL, WARN)}
    lines.append(f"{counts[FAIL]} failed, {counts[WARN]} to look at" if any(counts.values()) else "all is well")
    return "\n".join(lines)


def as_plain(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings for programs."""
    return {
        "exit_code": int(exit_code(findings)),
        "findings": [
            {
                "name": finding.name,
                "level": finding.level.lower(),
                "told": finding.told,
                "advice": finding.advice or None,
                "figures": dict(finding.figures),
            }
            for finding in findings
        ],
    }
