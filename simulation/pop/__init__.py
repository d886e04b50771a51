"""Simulate consumers that pop: clients that speak remoting, and a proxy with clients that speak gRPC.

`client` pops in a classic client's process, whose retry topic is pulled as ever; `proxy` pops for the clients of
`proxied_client`, renews what they have (`receipts`), and copies their heartbeats. `listener` is the application, with
its faults. The broker's side is `simulation.pop_hold`, what a hook reports `simulation.pop_sums`, and what became of
every message `simulation.popped`.

What is simplified: an attempt id is never lost; a group begins at a queue's first message; a batch is never too large;
each POP reads the queues in an order drawn at random, the retry topic first in one of five (popFromRetryProbability).
"""
