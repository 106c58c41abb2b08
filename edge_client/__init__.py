"""The device's daemon: keeps one connection to a coordinator, and trains in a child process."""
