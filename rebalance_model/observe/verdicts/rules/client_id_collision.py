"""CLIENT_ID_COLLISION: two processes share one client id.

RocketMQ takes them for one member on two connections: each works out the same share, some queues have two consumers
and others none. Hook: heartbeats of the id alternate between two channels (`heartbeats`). Poll: a broker lists two of
its channels for longer than it keeps a dead one.
"""

from rebalance_model.observe.hooks.heartbeats import returning
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, client_id: str) -> Verdict:
    """By the channels that are alive at once."""
    if client_id not in turn.state.members:
        return CLEAR
    return Holds("critical", client_id=client_id) if len(_channels(turn, client_id)) > 1 else CLEAR


def evidence(turn: Turn, client_id: str) -> Evidence:
    """The channels: address and port of each process."""
    channels = _channels(turn, client_id)
    return {"channels": ", ".join(channels), "count": len(channels)}


def _channels(turn: Turn, client_id: str) -> list[str]:
    for view in turn.state.views.values():
        hook = turn.live_hook(view)
        heard = hook.heartbeats.get(client_id) if hook is not None else None
        if hook is not None and heard is not None and len(heard.channels) > 1:
            found = returning(heard, turn.now, turn.policy)
            if len(found) > 1:
                limit = 2 * turn.policy.heartbeat_broker_interval
                turn.schedule_check(min(heard.channels[c].last for c in found) + limit + 1)
                return found
        listed = view.doubled.get(client_id, {})
        found = sorted(c for c, since in listed.items() if view.asked - since > turn.policy.channel_expired_after)
        if len(found) > 1:
            return found
    return []


RULE = Rule("CLIENT_ID_COLLISION", judge, evidence)
