"""Benchmarks: `python -m tests.benchmarks` prints the figures of this machine beside their targets."""
