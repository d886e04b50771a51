"""Scenarios of consumers that pop, and what was sent and seen of them."""

from dataclasses import dataclass

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import AnyEvent
from simulation import START, SimulatedCluster, scenario, story

BROKER, TOPIC, GROUP = "broker-a", "Orders", "g"
RETRY = MessageQueue(f"%RETRY%{GROUP}_{TOPIC}", BROKER, 0)


@dataclass
class Popped:
    """A cluster whose scenario has run, and its events."""

    cluster: SimulatedCluster
    events: list[AnyEvent]

    def of(self, *kinds):
        return [event for event in self.events if isinstance(event, kinds)]

    def deliveries(self, mq=None):
        return [one for one in self.cluster.world.deliveries.records if mq in (None, one.queue)]

    def committed(self, queue_id=0):
        return self.cluster.brokers[BROKER].offsets.query_offset(GROUP, TOPIC, queue_id)


def popped(pops, *steps, seconds=180, consumers=2, seed=1, rate=2.0, queues=2, **group):
    """Run a group that pops in the given way, of one topic at one broker."""
    made = {"name": GROUP, "called": "c", "topics": [TOPIC], "consumers": consumers, "pops": pops, **group}
    content = {
        "title": "popped",
        "minutes": seconds / 60,
        "topics": [{"name": TOPIC, "queues": queues, "messages_per_second": rate}],
        "groups": [made],
        "story": list(steps),
    }
    events = []
    cluster = SimulatedCluster(scenario.read(content), seed, events.append)
    story.schedule(cluster)
    cluster.run_until(seconds)
    cluster.end()
    return Popped(cluster, events)


def second(time):
    """Return a time as seconds from the scenario's start."""
    return (time - START) / 1_000
