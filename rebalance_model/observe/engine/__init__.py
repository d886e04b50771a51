"""Bring the log's events into time order and advance time: clocks, ordering, timeline, shard.

The timeline has a `GroupObserver` for each group, and the cluster's observer, which interpret the events.
"""
