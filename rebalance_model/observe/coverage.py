"""What telemetry there is to judge a group by, beside every judgement."""

import msgspec

from rebalance_model.observe.state import GroupState

_ENCODER = msgspec.json.Encoder(order="deterministic")


def coverage(state: GroupState) -> str:
    """JSON: brokers that answer of all known, members that answer of all, whether offsets are known."""
    views = state.views.values()
    members = [state.clients.get(m) for m in state.members]
    return _ENCODER.encode(
        {
            "brokers": len(views),
            "brokers_answering": sum(not view.failing for view in views),
            "members": len(members),
            "members_answering": sum(c is not None and c.answered > 0 and c.unanswered_since is None for c in members),
            "offsets": any(queue.commit_offset is not None for queue in state.queues.values()),
        }
    ).decode()
