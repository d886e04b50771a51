"""Simulate a cluster in virtual time, made of the model's own broker and client sides.

`SimulatedCluster` runs a `Scenario`: name server, brokers and clients on one clock (`scheduler`) and one seeded
generator (`splitmix`), so the same seed gives the same bytes. It emits what both collectors would see
(`poll_collector`, `hook_collector`), and keeps the truth beside it (`truth`). Here one of two consumers leaves after
30 s:

>>> from simulation import START, SimulatedCluster, Owned, scenario, story
>>> leaving = scenario.read({
...     "title": "a consumer leaves",
...     "minutes": 1,
...     "topics": [{"name": "Orders", "queues": 4}],
...     "groups": [{"name": "g", "called": "c", "topics": ["Orders"], "ordered": True, "consumers": 2}],
...     "story": [{"at": 30, "do": "leave", "who": "c-2"}],
... })
>>> telemetry = []
>>> cluster = SimulatedCluster(leaving, seed=1, sink=telemetry.append)
>>> story.schedule(cluster)
>>> cluster.run_until(60)
>>> cluster.end()
>>> [event.client_id for event in telemetry if type(event).__name__ == "UnregisterClient"]
['127.0.0.1@c-2']
>>> for record in cluster.world.truth.records:
...     if isinstance(record, Owned) and record.begin >= START + 30_000:
...         print(record.begin - START, record.queue, record.client_id)
30002 Orders@broker-a:2 127.0.0.1@c-1
30003 Orders@broker-a:3 127.0.0.1@c-1

What is exact: everything that `rebalance_model` and `simulation.rocketmq` do, each timer with RocketMQ's own
first delay and period, and the order of messages within a connection. What is simplified: a connection's latency is
drawn once, when it is opened; a broker answers at once, and has no slaves; a client has a thread for every task; no
message is filtered out by its tag.
"""

from simulation import scenario, story
from simulation.cluster import START, SimulatedCluster
from simulation.popped import Delivered, Deliveries
from simulation.scenario import Scenario, ScenarioError
from simulation.truth import AnyRecord, Consumed, Fault, Locked, Owned, Truth

__all__ = [
    "START",
    "AnyRecord",
    "Consumed",
    "Delivered",
    "Deliveries",
    "Fault",
    "Locked",
    "Owned",
    "Scenario",
    "ScenarioError",
    "SimulatedCluster",
    "Truth",
    "scenario",
    "story",
]
