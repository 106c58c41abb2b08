"""A run as its page shows it, and as other programs read it."""
