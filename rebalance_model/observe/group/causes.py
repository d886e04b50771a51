"""What makes a group rebalance, as it came: what storms are made of.

A cause and its consequences are one: what a client does on several brokers within `ONE_CAUSE_WITHIN` is one cause, and
so is what a joining client's first heartbeat does to the subscriptions.

Most causes are none to worry about: a rollout takes every client away once and brings it back, or another in its place;
a cut connection is opened again. So those count towards a storm (`repeated`) that come again: of a client that has come
since others began to go, and goes itself; that reconnects more than once; of a topic that is subscribed and
unsubscribed, or whose queues change, more often than there and back.
"""

from collections import defaultdict

from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import Cause, GroupState, HookView, RebalanceLoop
from rebalance_model.observe.step import GroupStep

KEPT = 128
ONE_CAUSE_WITHIN = 5_000
THERE_AND_BACK = 2
LOOPS_WITHIN = 10_000
"""A client that asks for the members again within so long, and again, is not waiting for its timer (20 s)."""
RATE_OVER = 24 * 3_600_000
"""The group's own rate is that of the last 12 to 24 hours."""

COMES = ("CLIENT_JOINED", "CLIENT_RESTARTED")
LEAVES = ("CLIENT_LEFT", "CLIENT_UNREGISTERED", "CONNECTION_CLOSED", "HEARTBEAT_EXPIRED")
GOES = (*LEAVES, "CLIENT_RESTARTED")
CONNECTIONS = "CONNECTIONS_CHANGED"
SUBSCRIPTIONS = "SUBSCRIPTION_CHANGED"
ROUTES = ("ROUTE_CHANGED", "BROKER_LOST", "BROKER_BACK")
_COUNTED = frozenset((*COMES, *GOES, CONNECTIONS, SUBSCRIPTIONS, *ROUTES))


def begin(state: GroupState, now: int) -> None:
    """Count from now on: observation begins, or the group lives by another clock."""
    state.causes, state.causes_since, state.causes_counted = (), now, 0


def note(step: GroupStep, code: str, subject: str, client_id: str | None) -> None:
    """Take down what makes the group rebalance."""
    if code not in _COUNTED:
        return
    state, now = step.state, step.now
    for known in reversed(state.causes):
        if now - known.time > ONE_CAUSE_WITHIN:
            break
        if (known.code, known.subject, known.client_id) == (code, subject, client_id):
            return
    state.causes = (*state.causes, Cause(now, code, subject, client_id))[-KEPT:]
    state.causes_counted += 1
    if now - state.causes_since > RATE_OVER:
        state.causes_since, state.causes_counted = now - RATE_OVER // 2, state.causes_counted // 2
    step.group_to_judge = True


def note_asking(step: GroupStep, hook: HookView, client_id: str | None, now: int) -> None:
    """A client asks a broker who the members are, as it does for each topic whenever it rebalances."""
    if client_id is None:
        return
    asking = hook.rebalance_loops.get(client_id)
    if asking is None or now - asking.last > LOOPS_WITHIN:
        hook.rebalance_loops[client_id] = RebalanceLoop(now, now)
        return
    asking.last = now
    if now - asking.since > step.policy.storm_window:
        step.group_to_judge = True


def recent(step: GroupStep) -> list[Cause]:
    """The causes of the last storm window."""
    return [cause for cause in step.state.causes if step.now - cause.time <= step.policy.storm_window]


def repeated(step: GroupStep) -> list[Cause]:
    """Those of them that come again and again."""
    lives: defaultdict[str, list[Cause]] = defaultdict(list)
    changes: defaultdict[str, list[Cause]] = defaultdict(list)
    for cause in recent(step):
        if cause.code in COMES or cause.code in GOES:
            lives[cause.subject].append(cause)
        else:
            changes[_what_changed(cause)].append(cause)
    began = min((cause.time for life in lives.values() for cause in life if cause.code in GOES), default=0)
    since = [[cause for cause in life if cause.time >= began] for life in lives.values()]
    found = [cause for life in since if _came_and_went(life) for cause in life]
    for what in changes.values():
        if len(what) > THERE_AND_BACK and not (what[0].code == SUBSCRIPTIONS and _are_upgrades(step, what)):
            found += what
    return found


def own_rate(state: GroupState, policy: Policy, now: int, lately: int) -> tuple[int, int] | None:
    """How many causes the group had in how many milliseconds, the last storm window with its causes left out.

    None where that has not been watched for long enough.
    """
    span = now - state.causes_since - policy.storm_window
    return (max(0, state.causes_counted - lately), span) if span >= policy.storm_rate_after else None


def _what_changed(cause: Cause) -> str:
    if cause.code == SUBSCRIPTIONS:
        return f"{cause.code} {cause.subject[1:]}"  # without the sign: it comes and goes
    return f"{'BROKER' if cause.code.startswith('BROKER') else cause.code} {cause.subject}"


def _came_and_went(life: list[Cause]) -> bool:
    """Whether a client has come, after some client had gone, and went again: no rollout does that."""
    came = False
    for cause in life:
        if came and cause.code in GOES:
            return True
        came = came or cause.code in COMES
    return False


def _are_upgrades(step: GroupStep, changes: list[Cause]) -> bool:
    """Clients had just joined, each time: while old and new ones are members, each undoes the other's subscriptions."""
    limit, joined = step.policy.subscription_differs_after, [c.time for c in step.state.causes if c.code in COMES]
    times = [change.time for change in changes]
    if step.now - times[-1] <= step.policy.heartbeat_broker_interval:
        times.append(step.now)  # it goes on
    return all(any(0 <= at - since < limit for since in joined) for at in times)
