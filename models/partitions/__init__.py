"""The partitions, by what they draw; `models.partition` says what one is."""
