"""Bring the log's events into time order and advance time: clocks, ordering, timeline, shard.

The timeline calls `group_observer` and `cluster_observer`, which interpret the events.
"""
