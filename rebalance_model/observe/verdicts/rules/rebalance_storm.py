"""REBALANCE_STORM: the group rebalances again and again, and what makes it do so comes again each time.

Counted are the causes that repeat (`causes.repeated`): a rollout is none, however large, nor is a network that comes
back. The sub-cause is what most of them are:

- TOPIC_SET_FLIP: members subscribe different topics, and each heartbeat undoes the other's.
- RECONNECT_CHURN: the same client ids come back on other connections, without having said goodbye.
- MEMBER_FLAPPING: clients join and leave.
- ROUTE_FLAPPING: the topic's queues, or a broker with its own, come and go.

Without a cause, a client that is never done rebalances every second. CONFIG_ON_RETRY_TOPIC: the strategy CONFIG gives
it the same queues for the retry topic, too, where they are none; ENDLESS_REBALANCE: not known why. The hook tells.
"""

from collections import Counter

from rebalance_model.observe.group import causes
from rebalance_model.observe.state import Cause
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict

CODE = "REBALANCE_STORM"
TIMES_ITS_RATE = 4
CONFIG = "AllocateMessageQueueByConfig"


def judge(turn: Turn, _: str) -> Verdict:
    """By the causes that repeat, and, once it is open, until none has for the whole window."""
    state, policy = turn.state, turn.policy
    restless = _restless(turn)
    if restless is not None:
        config = state.clients[restless].strategy.endswith(CONFIG)
        return Holds("critical", "CONFIG_ON_RETRY_TOPIC" if config else "ENDLESS_REBALANCE", restless)
    is_open = CODE in state.incidents
    if not is_open and len(state.causes) < min(policy.storm_causes + 1, policy.storm_causes_rare):
        return CLEAR
    found = causes.repeated(turn)
    if found and is_open:
        turn.schedule_check(min(cause.time for cause in found) + policy.storm_window + 1)
    if found and (is_open or _is_storm(turn, len(found))):
        return Holds("critical", _root(found), _culprit(found))
    return CLEAR


def evidence(turn: Turn, _: str) -> Evidence:
    """How many causes, and whose."""
    found, lately = causes.repeated(turn), len(causes.recent(turn))
    rate = causes.own_rate(turn.state, turn.policy, turn.now, lately)
    told: Evidence = {
        "causes": len(found),
        "limit": turn.policy.storm_causes,
        "window_ms": turn.policy.storm_window,
        "all_causes": lately,
        "own_causes_per_hour": rate[0] * 3_600_000 // rate[1] if rate is not None else None,
    }
    for what, count in Counter(f"{cause.code} {cause.subject}" for cause in found).most_common(3):
        told[what] = count
    return told


def _is_storm(turn: Turn, count: int) -> bool:
    policy = turn.policy
    if count > policy.storm_causes:
        return True
    rate = causes.own_rate(turn.state, policy, turn.now, len(causes.recent(turn)))
    if rate is None or count < policy.storm_causes_rare:
        return False
    return count * rate[1] > TIMES_ITS_RATE * rate[0] * policy.storm_window


def _root(found: list[Cause]) -> str:
    goodbyes = {
        cause.subject for cause in found if cause.code in ("CLIENT_LEFT", "CLIENT_UNREGISTERED", "CLIENT_RESTARTED")
    }
    return Counter(_kind(cause, goodbyes) for cause in found).most_common(1)[0][0]


def _kind(cause: Cause, goodbyes: set[str]) -> str:
    if cause.code == causes.SUBSCRIPTIONS:
        return "TOPIC_SET_FLIP"
    if cause.code in causes.ROUTES:
        return "ROUTE_FLAPPING"
    if cause.code == causes.CONNECTIONS or cause.subject not in goodbyes:
        return "RECONNECT_CHURN"
    return "MEMBER_FLAPPING"


def _culprit(found: list[Cause]) -> str | None:
    """The client that causes most of it, where one does."""
    [(client_id, count)] = Counter(cause.client_id for cause in found).most_common(1)
    return client_id if 2 * count > len(found) else None


def _restless(turn: Turn) -> str | None:
    """A client that has rebalanced every second for the whole window, though no lock is kept from it."""
    for view in turn.state.views.values():
        if view.hook is None or not view.hook.restless:
            continue
        hook = view.hook
        for client_id, asking in hook.restless.items():
            long = asking.last - asking.since > turn.policy.storm_window
            if long and client_id in turn.state.clients and turn.now - asking.last <= causes.RESTLESS_WITHIN:
                turn.schedule_check(asking.last + causes.RESTLESS_WITHIN + 1)
                if not _is_refused(turn, client_id):
                    return client_id
    return None


def _is_refused(turn: Turn, client_id: str) -> bool:
    return any(queue.hook is not None and client_id in queue.hook.refusals for queue in turn.state.queues.values())


RULE = Rule(CODE, judge, evidence, absorbed_by=("TELEMETRY_GAP",))
