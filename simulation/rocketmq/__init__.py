"""The parts of RocketMQ that only the simulation runs, method by method as in Java.

The observer of a cluster doesn't decide by them: it sees what they do by their requests and answers. What it decides by
is in `rebalance_model`.
"""
