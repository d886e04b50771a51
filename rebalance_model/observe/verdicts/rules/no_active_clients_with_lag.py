"""NO_ACTIVE_CLIENTS_WITH_LAG: messages wait for a group that had members, and has none.

Clients behind a proxy of its own (CLUSTER mode) stand in no broker's list: a group whose commits advance all the same
is consumed. Of a broadcasting group the broker's offsets are leftovers.
"""

from rebalance_model.observe.group.expectation import broadcasts, group_info, is_consumed_unlisted
from rebalance_model.observe.polls.offsets import lag_of
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, _: str) -> Verdict:
    """By how long ago the last member went."""
    state = turn.state
    if state.members or not state.unmanned_since:
        return CLEAR
    if broadcasts(state) or is_consumed_unlisted(state, turn.policy):
        return CLEAR
    alone = turn.now - state.unmanned_since
    if alone > turn.policy.group_memory:
        return CLEAR
    waiting = _waiting(turn)
    if waiting is None or group_info(state) is None:
        return None
    turn.schedule_check(state.unmanned_since + turn.policy.group_memory + 1)
    return Holds("critical", held=alone) if waiting else CLEAR


def evidence(turn: Turn, _: str) -> Evidence:
    """How much waits, and for how long nobody has been there."""
    since = turn.state.unmanned_since
    return {
        "lag": _waiting(turn),
        "members": len(turn.state.members),
        "without_members_ms": turn.now - since if since else 0,
        "limit_ms": turn.policy.no_clients_after,
    }


def _waiting(turn: Turn) -> int | None:
    """Messages that wait in all queues; None where no broker has said."""
    lags = [lag for mq, queue in turn.state.queues.items() if not mq.is_retry and (lag := lag_of(queue)) is not None]
    return sum(lags) if lags else None


RULE = Rule(
    "NO_ACTIVE_CLIENTS_WITH_LAG",
    judge,
    evidence,
    open_after=lambda policy: policy.no_clients_after,
    absorbed_by=("BROKER_UNREACHABLE", "TELEMETRY_GAP"),
)
