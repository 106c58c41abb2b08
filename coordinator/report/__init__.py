"""What a run has come to, for people and for files: the summary and its table."""
