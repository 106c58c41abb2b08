"""The pages of a report, as they stand before a run fills them."""
