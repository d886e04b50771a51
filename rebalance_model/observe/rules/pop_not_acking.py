"""POP_NOT_ACKING: a member gets messages by POPs, and has neither acknowledged nor refused any for long.

A POP without a message is answered after its pollTime, so a member that pops more often gets messages. All of them come
back when they have been invisible for long enough, are consumed twice, or wait in its cache: the group's lag can be 0,
as the commit advances when a message is handed out.

BEHIND_PROXY: all clients of a proxy together, on whose channels no message is acknowledged or refused; the
subject is the proxy, since its calls do not name the client. It takes that all of them finish nothing, and that their
number is known.

It stays open while the member pops less, as one does that is full.
Clear when it finishes a message, or is no member any more.
"""

from rebalance_model.observe.group import proxied
from rebalance_model.observe.rules import concerns
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, ClientRule, Evidence, Holds, Verdict
from rebalance_model.observe.rules.unresponsive import CLIENT_UNRESPONSIVE, STALE_HEARTBEAT
from rebalance_model.observe.state import IncidentKey, Popper, Pops
from rebalance_model.observe.state.pops import WINDOW_MS
from rebalance_model.observe.step import GroupStep

CODE = "POP_NOT_ACKING"
MARGIN = 8
"""A member pops so much more often in a minute without a message: at its start, and when its share changes."""
BEHIND_PROXY = "BEHIND_PROXY"


def judge(step: GroupStep, client_id: str) -> Verdict:
    """Compare the member's POPs with those of one that gets nothing."""
    if client_id in step.facts.pops.proxies:
        return _of_proxy(step, step.facts.pops, client_id)
    popper = step.facts.pops.poppers.get(client_id)
    if popper is None or client_id not in step.facts.members:
        return CLEAR
    since, own = step.facts.hooked_since, step.state.incidents.get(IncidentKey(CODE, client_id))
    if since is None:
        return None
    idle_ms = step.now - max(popper.since, popper.finished_at, since)
    has_finished_none = own is not None and popper.finished_at <= own.opened_at
    if not has_finished_none and idle_ms <= step.policy.pop_not_acking_after:
        return CLEAR
    if own is None and popper.pops.total(step.now) <= _without_messages(popper, step.now):
        return CLEAR
    explained = (IncidentKey(CLIENT_UNRESPONSIVE, client_id), IncidentKey(STALE_HEARTBEAT, client_id))
    return Holds("critical", client_id=client_id, explained_by=explained)


def _of_proxy(step: GroupStep, pops: Pops, name: str) -> Verdict:
    """Compare the POPs of a proxy's clients together with those of clients that get nothing."""
    popper, clients = pops.proxies[name], proxied.clients(step.state)
    if any(source in step.state.silent for source in pops.sources):
        return None
    own = step.state.incidents.get(IncidentKey(CODE, name))
    idle_ms = step.now - max(popper.since, popper.finished_at, pops.covered_since)
    has_finished_none = own is not None and popper.finished_at <= own.opened_at
    if any(topic.order for topic in pops.queues.topics.values()):
        return CLEAR  # a client tries again by itself, and the queue is blocked: ORDERED_QUEUE_STUCK
    if not clients or (not has_finished_none and idle_ms <= step.policy.pop_not_acking_after):
        return CLEAR
    if own is None and popper.pops.total(step.now) <= len(clients) * _without_messages(popper, step.now):
        return CLEAR
    return Holds("critical", BEHIND_PROXY, clients[0] if len(clients) == 1 else None)


def evidence(step: GroupStep, client_id: str) -> Evidence:
    """Return how often the member has popped in the last minute, and for how long it has finished nothing."""
    popper, client = step.facts.pops.poppers.get(client_id), step.state.clients.get(client_id)
    clients = 1
    if popper is None and client_id in step.facts.pops.proxies:
        popper, clients = step.facts.pops.proxies[client_id], len(proxied.clients(step.state))
    if popper is None:
        return {"member": client_id in step.facts.members}
    since = max(popper.since, popper.finished_at)
    return {
        "pops": popper.pops.total(step.now),
        "pops_without_messages": clients * _without_messages(popper, step.now),
        "not_acking_ms": step.now - since,
        "limit_ms": step.policy.pop_not_acking_after,
        "unacked": client.unacked if client is not None else None,
    }


def explains(step: GroupStep) -> tuple[IncidentKey, ...]:
    """Return the group's open incidents of this rule, for `Holds.explained_by`."""
    return tuple(key for key in step.state.incidents if key.code == CODE)


def _without_messages(popper: Popper, now: int) -> int:
    """Return how often at most a member pops in a minute that gets no message."""
    return len(popper.active(now)) * WINDOW_MS // max(popper.poll_ms, 1_000) + MARGIN


RULE = ClientRule(
    CODE,
    judge,
    evidence,
    title="{subject} acknowledges nothing that it pops",
    units={
        "member": "flag",
        "pops": "count",
        "pops_without_messages": "count",
        "not_acking_ms": "ms",
        "limit_ms": "ms",
        "unacked": "messages",
    },
    sub_causes=("", BEHIND_PROXY),
    concerns=concerns.POPS,
    needs=("POPS",),
    absorbed_by=(*OF_BROKER, "PROXY_UNREACHABLE", "TELEMETRY_GAP"),
    advice={
        "": Advice(
            what=(
                "The member gets messages by POPs and has finished none of them for long: its listeners hang, or never "
                "return an acknowledgement. Each message comes back when it has been invisible for long enough."
            ),
            first_step="Take a thread dump of the member (mqadmin consumerStatus -s): its listeners have not returned.",
            inspect=("THREADS",),
        ),
        BEHIND_PROXY: Advice(
            short="the clients behind it finish nothing",
            what=(
                "The clients behind the proxy get messages and have finished none of them for long: their listeners "
                "hang, or never acknowledge. Each message comes back when it has been invisible for long enough."
            ),
            first_step="Take a thread dump of the clients, and look whether each received message is acknowledged.",
            inspect=("PROGRESS",),
        ),
    },
)
