"""Who is here: the one port, who may speak there, and who of them fits the run."""
