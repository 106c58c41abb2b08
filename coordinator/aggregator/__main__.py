"""`python -I -m coordinator.aggregator --pipe FD`, as the daemon starts it."""

from coordinator.aggregator.child import main

main()
