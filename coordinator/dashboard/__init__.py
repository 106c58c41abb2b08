"""The live page of a run: a process of its own that reads what the run stores, and changes nothing."""
