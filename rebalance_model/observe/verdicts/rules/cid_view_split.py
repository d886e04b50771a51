"""CID_VIEW_SPLIT: the brokers of the group's topics list different members.

Each client asks one of them, by chance, who the members are; so assignments alternate, and queues have two owners or
none. A client heartbeats to every broker: one that is listed by some only cannot reach the others.

No event tells that a channel was closed, so a broker's hook may show a member for a while that is gone: there such a
member counts only while it heartbeats.
"""

from rebalance_model.observe.group.expectation import division
from rebalance_model.observe.state import BrokerView
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict

HEARTBEAT_LATE = 5_000
"""A heartbeat comes so much later than its interval at most."""


def judge(turn: Turn, _: str) -> Verdict:
    """By what every broker that answers, or whose hook tells, says of its members."""
    if len(turn.state.views) < 2 or division(turn.state) == "PROXIED":
        return CLEAR  # each broker with a proxy inside lists the clients of its own
    views = _views(turn)
    if len(views) < 2:
        return None
    missing = _missing(turn, views)
    if not missing:
        return CLEAR
    return Holds("warning", client_id=missing[0][0] if len({client_id for client_id, _ in missing}) == 1 else None)


def evidence(turn: Turn, _: str) -> Evidence:
    """Who is missing where."""
    views = _views(turn)
    missing = _missing(turn, views)
    found: Evidence = {"brokers": len(views), "missing": len(missing)}
    if missing:
        found["client"], found["broker"] = missing[0]
    return found | {f"members of {broker}": len(ids) for broker, (ids, _) in views.items()}


def is_split(turn: Turn) -> bool:
    """Whether brokers list different members now: clients that ask one or the other share out queues differently."""
    return len(turn.state.views) > 1 and bool(_missing(turn, _views(turn)))


def _views(turn: Turn) -> dict[str, tuple[set[str], set[str]]]:
    """Of each broker whose word counts: whom it lists, and whom it surely still hears from."""
    serving = {mq.broker for mq, queue in turn.state.queues.items() if queue.in_route}
    views = {}
    for broker, view in turn.state.views.items():
        if serving and broker not in serving:
            continue
        hook = turn.live_hook(view)
        if hook is None:
            if not view.failing and view.asked:
                listed = set(view.info.client_ids())
                views[broker] = (listed, listed)
        elif turn.now > hook.complete_at:
            listed = set(view.info.client_ids()) | hook.returning.keys()
            views[broker] = (listed, _heard(turn, view, turn.now))
    return views


def _heard(turn: Turn, view: BrokerView, now: int) -> set[str]:
    limit = turn.policy.heartbeat_broker_interval + HEARTBEAT_LATE
    table = view.info.channel_info_table.values()
    return {info.client_id for info in table if now - info.last_update_timestamp <= limit}


def _missing(turn: Turn, views: dict[str, tuple[set[str], set[str]]]) -> list[tuple[str, str]]:
    """Members that one broker hears from, and the broker that does not list them."""
    heard = set().union(*(heard for _, heard in views.values()))
    members = [member for member in turn.state.members if member in heard]
    return [(member, broker) for member in members for broker in sorted(views) if member not in views[broker][0]]


RULE = Rule(
    "CID_VIEW_SPLIT",
    judge,
    evidence,
    open_after=lambda policy: policy.view_split_after,
    absorbed_by=("BROKER_UNREACHABLE", "TELEMETRY_GAP", "REBALANCE_STORM"),
)
