"""What the two daemons' exit statuses mean: the one vocabulary that scripts and service managers may rely on."""

from enum import IntEnum

GIVEN_UP = ("finished", "failed")
"""The outcomes of a run that no process goes on with unasked."""


class ExitCode(IntEnum):
    """How a command ended."""

    FINISHED = 0
    BAD_CONFIG = 2
    """Settings or arguments that cannot be used; `argparse` ends with the same number."""
    REFUSED = 3
    """The coordinator refused this client for good."""
    FAILED = 4
    """The run failed: too many rounds without a quorum, or an error in the method."""
    INTERRUPTED = 5
    """Stopped before the end, as by a signal; may be started again."""
    NO_SPACE = 6
    """Nothing could be begun, as the disk is full; the same command can be given again once it is not."""

    @property
    def outcome(self) -> str:
        """What clients and `summary.json` are told of a run that ended so."""
        return {ExitCode.FINISHED: "finished", ExitCode.INTERRUPTED: "interrupted"}.get(self, "failed")
