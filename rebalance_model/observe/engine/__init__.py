"""From the order of the log to the order of time: clocks, ordering, and the fold of a shard's groups."""
