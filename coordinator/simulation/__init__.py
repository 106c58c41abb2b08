"""A run without devices: its clients, wherever the work for them is done, and the time that it would have taken."""
