"""What telemetry there is to judge a group by, beside every judgement."""

from rebalance_model.observe.state import GroupState


def coverage(state: GroupState) -> str:
    """JSON: brokers that answer of all known, members that answer of all, whether offsets are known."""
    answering = sum(not view.failing for view in state.views.values())
    clients = [state.clients.get(m) for m in state.members]
    heard = sum(c is not None and c.answered > 0 and not c.unanswered for c in clients)
    offsets = any(queue.commit_offset is not None for queue in state.queues.values())
    return (
        f'{{"brokers":{len(state.views)},"brokers_answering":{answering},'
        f'"members":{len(clients)},"members_answering":{heard},"offsets":{str(offsets).lower()}}}'
    )
