"""The only part of `wire` that does I/O: `zeromq` between machines, `child` between a daemon and its child process."""
