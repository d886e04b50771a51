"""GHOST_CONNECTION, a sub-cause of three rules: a dead connection prevents a queue from having an owner.

See `group.ghost_connections`.
"""

from collections.abc import Mapping
from typing import Final

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group import ghost_connections
from rebalance_model.observe.rules.rule import Advice, Evidence, Unit
from rebalance_model.observe.step import GroupStep

GHOST_CONNECTION: Final = "GHOST_CONNECTION"
GHOST_ADVICE = Advice(
    short="a dead connection counts as a client",
    what=(
        "A client appears twice in the broker's member list, once on a dead connection: the strategy counts it twice, "
        "and no client takes the second share."
    ),
    first_step=(
        "Wait until the broker drops the dead connection (120 to 130 s after its last heartbeat, see the "
        "evidence). Restarting the client ends it sooner only if its process still holds that connection open."
    ),
    inspect=("MEMBERS",),
)
GHOST_UNITS: Mapping[str, Unit] = {
    "ghost_clients": "text",
    "dead_channels": "text",
    "living_channels": "text",
    "queues_without_owner": "count",
    "first_queues": "text",
    "earliest_drop_at": "epoch_ms",
    "latest_drop_at": "epoch_ms",
}
"""Units of the fields that `ghost_evidence` returns."""
NAMED = 10
"""At most this many of the affected queues are named in the evidence."""


def ghost_evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return the dead connections, the queues that they affect, and when the broker's scan drops them (epoch ms)."""
    ghosts = ghost_connections.leaves_unassigned(step, q.queue)
    if not ghosts:
        return {}
    share = ghost_connections.share(step)
    earliest = [ghost.dropped_from for ghost in ghosts if ghost.dropped_from is not None]
    return {
        "ghost_clients": ", ".join(ghost.client_id for ghost in ghosts),
        "dead_channels": ", ".join((", " if ghost.alive else " or ").join(ghost.dead) for ghost in ghosts),
        "living_channels": ", ".join(ghost.alive for ghost in ghosts if ghost.alive),
        "queues_without_owner": len(share),
        "first_queues": ", ".join(str(one) for one in share[:NAMED]),
        "earliest_drop_at": max(earliest) if len(earliest) == len(ghosts) else None,
        "latest_drop_at": max(ghost.dropped_by for ghost in ghosts),
    }
