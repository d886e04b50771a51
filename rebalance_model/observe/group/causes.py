"""Record what makes a group rebalance, and find the causes that repeat: the input of REBALANCE_STORM.

A cause and its consequences count as one: what a client does on several brokers within `ONE_CAUSE_WITHIN` is one cause,
and so is the change of subscriptions by a joining client's first heartbeat.

Most causes are harmless: a rollout stops every client once and starts it again, or a replacement; a cut connection is
reopened. So only causes that repeat count towards a storm (`repeated`): of a client that joined after others had begun
to leave, and leaves itself; of a client that reconnects more than once; of a topic whose subscription or queues change
more often than once there and back.
"""

from collections import defaultdict

from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import Cause, GroupState, HookView, RebalanceLoop
from rebalance_model.observe.step import GroupStep

KEPT = 128
"""At most this many causes are kept for a group."""
ONE_CAUSE_WITHIN = 5_000
"""Calls of one client within this time are one cause; milliseconds."""
THERE_AND_BACK = 2
"""A subscription or route that changes more often than this counts as repeated."""
LOOPS_WITHIN = 10_000
"""A client that requests the member list again within this time, repeatedly, does not wait for its timer (20 s);
milliseconds."""
RATE_OVER = 24 * 3_600_000
"""The group's usual rate is that of the last 12 to 24 hours."""

COMES = ("CLIENT_JOINED", "CLIENT_RESTARTED")
LEAVES = ("CLIENT_LEFT", "CLIENT_UNREGISTERED", "CONNECTION_CLOSED", "HEARTBEAT_EXPIRED")
GOES = (*LEAVES, "CLIENT_RESTARTED")
CONNECTIONS = "CONNECTIONS_CHANGED"
SUBSCRIPTIONS = "SUBSCRIPTION_CHANGED"
ROUTES = ("ROUTE_CHANGED", "BROKER_LOST", "BROKER_BACK")
_COUNTED = frozenset((*COMES, *GOES, CONNECTIONS, SUBSCRIPTIONS, *ROUTES))


def begin(state: GroupState, now: int) -> None:
    """Start counting: observation begins, or the group's events come by another clock."""
    state.causes, state.causes_since, state.causes_counted = (), now, 0


def note(step: GroupStep, code: str, subject: str, client_id: str | None, *, unseen: bool = False) -> None:
    """Record a cause that makes the group rebalance, unless ``unseen`` by its members."""
    if code not in _COUNTED:
        return
    state, now = step.state, step.now
    for former in reversed(state.causes):
        if now - former.time > ONE_CAUSE_WITHIN:
            break
        if (former.code, former.subject, former.client_id) == (code, subject, client_id):
            return
    state.causes = (*state.causes, Cause(now, code, subject, client_id, unseen))[-KEPT:]
    state.causes_counted += 1
    if now - state.causes_since > RATE_OVER:
        state.causes_since, state.causes_counted = now - RATE_OVER // 2, state.causes_counted // 2
    step.changed("CAUSES")


def note_list_request(step: GroupStep, hook: HookView, client_id: str | None, now: int) -> None:
    """Record that a client requests the member list from a broker, as it does for each topic whenever it rebalances."""
    if client_id is None:
        return
    asking = hook.rebalance_loops.get(client_id)
    if asking is None or now - asking.last > LOOPS_WITHIN:
        hook.rebalance_loops[client_id] = RebalanceLoop(now, now)
        return
    asking.last = now
    if now - asking.since > step.policy.storm_window:
        step.changed("CAUSES")


def recent(step: GroupStep) -> list[Cause]:
    """Return the causes in the last storm window."""
    return [cause for cause in step.state.causes if step.now - cause.time <= step.policy.storm_window]


def repeated(step: GroupStep) -> list[Cause]:
    """Return the causes in the storm window that count as repeats."""
    lives: defaultdict[str, list[Cause]] = defaultdict(list)
    changes: defaultdict[str, list[Cause]] = defaultdict(list)
    for cause in recent(step):
        if cause.code in COMES or cause.code in GOES:
            lives[cause.subject].append(cause)
        else:
            changes[_what_changed(cause)].append(cause)
    began = min((cause.time for life in lives.values() for cause in life if cause.code in GOES), default=0)
    since = [[cause for cause in life if cause.time >= began] for life in lives.values()]
    repeats = [cause for life in since if _rejoined_and_left(life) for cause in life if not cause.unseen]
    for what in changes.values():
        if len(what) > THERE_AND_BACK and not (what[0].code == SUBSCRIPTIONS and _are_upgrades(step, what)):
            repeats += what
    return repeats


def usual_rate(state: GroupState, policy: Policy, now: int, recent_count: int) -> tuple[int, int] | None:
    """Return the group's usual number of causes and the milliseconds in which they came; None if watched too briefly.

    The last storm window and its causes are left out.
    """
    span = now - state.causes_since - policy.storm_window
    return (max(0, state.causes_counted - recent_count), span) if span >= policy.storm_rate_after else None


def _what_changed(cause: Cause) -> str:
    if cause.code == SUBSCRIPTIONS:
        return f"{cause.code} {cause.subject[1:]}"  # without the sign: a topic comes and goes
    return f"{'BROKER' if cause.code.startswith('BROKER') else cause.code} {cause.subject}"


def _rejoined_and_left(changes: list[Cause]) -> bool:
    """Return whether a client joined after some client had left, and left again: a rollout never does that."""
    joined = False
    for cause in changes:
        if joined and cause.code in GOES:
            return True
        joined = joined or cause.code in COMES
    return False


def _are_upgrades(step: GroupStep, changes: list[Cause]) -> bool:
    """Return whether clients had just joined before each change: during an upgrade, old and new clients alternate."""
    limit, joined = step.policy.subscription_differs_after, [c.time for c in step.state.causes if c.code in COMES]
    times = [change.time for change in changes]
    if step.now - times[-1] <= step.policy.heartbeat_broker_interval:
        times.append(step.now)  # it continues
    return all(any(0 <= at - since < limit for since in joined) for at in times)
