"""The reference model of RocketMQ's consumer rebalance, and the observer built from it.

Pure: no clock, IO, environment or randomness. Time comes in the event, so the same input gives the same
output, wherever a micro-batch is cut.
"""
