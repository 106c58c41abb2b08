"""The server's daemon: opens rounds, collects updates durably, and aggregates in a child process."""
