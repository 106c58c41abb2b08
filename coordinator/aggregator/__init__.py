"""The server half of a run, in a child process: the child, the daemon's end, and the same without a child."""
