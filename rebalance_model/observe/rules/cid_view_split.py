"""CID_VIEW_SPLIT: the brokers of the group's topics list different members.

Each client asks one of them, by chance, who the members are; so assignments alternate, and queues have two owners or
none. A client heartbeats to every broker: one that is listed by some only cannot reach the others.

No event tells that a channel was closed, so a broker's hook may show a member for a while that is gone: there such a
member counts only while it heartbeats.
"""

from rebalance_model.observe.group.expectation import division
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import BrokerView
from rebalance_model.observe.step import GroupStep

HEARTBEAT_LATE = 5_000
"""A heartbeat comes so much later than its interval at most."""


def judge(step: GroupStep, _: str) -> Verdict:
    """By what every broker that answers, or whose hook tells, says of its members."""
    if len(step.state.views) < 2 or division(step.state) == "PROXIED":
        return CLEAR  # each broker with a proxy inside lists the clients of its own
    views = _views(step)
    if len(views) < 2:
        return None
    missing = _missing(step, views)
    if not missing:
        return CLEAR
    return Holds("warning", client_id=missing[0][0] if len({client_id for client_id, _ in missing}) == 1 else None)


def evidence(step: GroupStep, _: str) -> Evidence:
    """Who is missing where."""
    views = _views(step)
    missing = _missing(step, views)
    found: Evidence = {"brokers": len(views), "missing": len(missing)}
    if missing:
        found["client"], found["broker"] = missing[0]
    return found | {f"members of {broker}": len(ids) for broker, (ids, _) in views.items()}


def is_split(step: GroupStep) -> bool:
    """Whether brokers list different members now: clients that ask one or the other share out queues differently."""
    return len(step.state.views) > 1 and bool(_missing(step, _views(step)))


def _views(step: GroupStep) -> dict[str, tuple[set[str], set[str]]]:
    """Of each broker whose word counts: whom it lists, and whom it surely still hears from."""
    serving = {mq.broker for mq, queue in step.state.queues.items() if queue.in_route}
    views = {}
    for broker, view in step.state.views.items():
        if serving and broker not in serving:
            continue
        hook = step.live_hook(view)
        if hook is None:
            if not view.failing and view.asked:
                listed = set(view.info.client_ids())
                views[broker] = (listed, listed)
        elif step.now > hook.complete_at:
            listed = set(view.info.client_ids()) | hook.expected_back_until.keys()
            views[broker] = (listed, _heard(step, view, step.now))
    return views


def _heard(step: GroupStep, view: BrokerView, now: int) -> set[str]:
    limit = step.policy.heartbeat_broker_interval + HEARTBEAT_LATE
    table = view.info.channel_info_table.values()
    return {info.client_id for info in table if now - info.last_update_timestamp <= limit}


def _missing(step: GroupStep, views: dict[str, tuple[set[str], set[str]]]) -> list[tuple[str, str]]:
    """Members that one broker hears from, and the broker that does not list them."""
    heard = set().union(*(heard for _, heard in views.values()))
    members = [member for member in step.state.members if member in heard]
    return [(member, broker) for member in members for broker in sorted(views) if member not in views[broker][0]]


RULE = GroupRule(
    "CID_VIEW_SPLIT",
    judge,
    evidence,
    units={"brokers": "count", "missing": "count", "client": "text", "broker": "text", "members of *": "count"},
    needs=("LISTS",),
    open_after=lambda policy: policy.view_split_after,
    absorbed_by=("BROKER_UNREACHABLE", "TELEMETRY_GAP", "REBALANCE_STORM"),
    advice={
        "": Advice(
            what=(
                "Brokers list different members: clients that ask different ones share out the queues differently, "
                "and some get two owners or none."
            ),
            first_step=(
                "Look why the missing client's heartbeats do not reach that broker: network, or its list of brokers."
            ),
        ),
    },
)
