"""Coverage-guided fuzzing of what comes through the port: `make fuzz`; `corpus.txt` is replayed by the tests."""
