"""The standing coordinator: one door, clients that stay, and a queue of runs that come and go."""
