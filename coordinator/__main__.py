"""`python -m coordinator` is `coordinator`."""

import sys

from coordinator.cli import main

sys.exit(main())
