"""Bring the log's events into the order of time, and let time pass: clocks, ordering, timeline, shard.

What an event means is for `group_observer` and `cluster_observer`, which the timeline calls.
"""
