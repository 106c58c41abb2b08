"""`coordinator`, and `python -m coordinator`: signals end it in order before anything else is imported."""

import sys

from wire.sockets.early import leave_on_signals


def main() -> int:
    """Run the command and return its `ExitCode`."""
    leave_on_signals()
    from coordinator.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
