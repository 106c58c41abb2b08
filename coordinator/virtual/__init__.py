"""The clients of a simulation, wherever the work for them is done, and the time that it would have taken on devices."""
