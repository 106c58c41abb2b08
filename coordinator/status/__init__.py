"""Where a run stands, for `coordinator status`."""
