"""CLIENT_ID_COLLISION: two processes share one client id.

RocketMQ treats them as one member on two connections: both compute the same share, so some queues have two consumers
and others none. Hook: heartbeats of the id alternate between two channels (`heartbeats`). Poll: a broker lists two
channels of the id for longer than it keeps a dead channel.
"""

from rebalance_model.observe.hooks.heartbeats import returned_channels
from rebalance_model.observe.rules import concerns
from rebalance_model.observe.rules.rule import CLEAR, Advice, ClientRule, Evidence, Holds, Verdict
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, client_id: str) -> Verdict:
    """Check which channels of the client are alive at the same time."""
    if client_id not in step.facts.members:
        return CLEAR
    return Holds("critical", client_id=client_id) if len(_channels(step, client_id)) > 1 else CLEAR


def evidence(step: GroupStep, client_id: str) -> Evidence:
    """Return the channels: address and port of each process."""
    channels = _channels(step, client_id)
    return {"channels": ", ".join(channels), "count": len(channels)}


def _channels(step: GroupStep, client_id: str) -> list[str]:
    for broker, view in step.state.views.items():
        heartbeats = step.facts.calls_at(broker).heartbeats.get(client_id)
        if heartbeats is not None and len(heartbeats.channels) > 1:
            channels = returned_channels(heartbeats, step.now, step.policy)
            if len(channels) > 1:
                limit = 2 * step.policy.heartbeat_broker_interval
                step.schedule_check(min(heartbeats.channels[c].last for c in channels) + limit + 1)
                return channels
        listed = view.doubled.get(client_id, {})
        channels = sorted(c for c, since in listed.items() if view.asked - since > step.policy.channel_expired_after)
        if len(channels) > 1:
            return channels
    return []


RULE = ClientRule(
    "CLIENT_ID_COLLISION",
    judge,
    evidence,
    title="Two processes are called {subject}",
    units={"channels": "text", "count": "count"},
    concerns=concerns.DOUBLED,
    advice={
        "": Advice(
            what=(
                "Two processes share this client id: both take the same share of the queues, and other queues have "
                "no owner."
            ),
            first_step=(
                "Give each process its own instanceName (in containers, host network and pid 1 make ids equal)."
            ),
            inspect=("MEMBERS",),
        ),
    },
)
