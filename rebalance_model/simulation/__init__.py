"""A cluster in virtual time, made of the model's own broker and client sides.

`Cluster` runs a `Scenario`: name server, brokers and clients on one clock (`scheduler`) and one seeded generator
(`splitmix`), so the same seed gives the same bytes. It emits what both collectors would see (`poll_collector`,
`hook_collector`), and keeps the truth beside it (`truth`).

What is exact: everything that `rebalance_model.broker` and `rebalance_model.client` do, each timer with RocketMQ's own
first delay and period, and the order of messages within a connection. What is simpler than life: a connection's
latency is drawn once, when it is made; a broker answers at once, and has no slaves; a client has a thread for whatever
is to be done; no message is filtered out by its tag.
"""
