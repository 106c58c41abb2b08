"""What a run leaves behind, and what a restart goes on from."""
