"""Data sets by family; each module has `load(config) -> Dataset` and `classes(config) -> label map`."""
