"""Facts of a group, its queues and its clients at one step, by all sources."""
