"""What a run costs and what comes of it, counted."""
