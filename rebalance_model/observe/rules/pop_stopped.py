"""POP_STOPPED: a member does not pop any more, so it consumes nothing.

FULL: by two consecutive answers it has popped more messages of a queue than popThresholdForQueue, and acknowledged none
of them: it waits for its listener. All the time the broker's own lag can be 0, as the commit advances when a message is
handed out. REFUSED: its POPs come, and the broker refuses each of them. Without a sub-cause: by hooks, no POP has come
since its last one was to be answered. Critical if more messages wait.

BEHIND_PROXY: all push consumers behind a proxy together: their heartbeats continue, and no proxy has popped
for them. The subject is the proxy that popped last.
"""

from rebalance_model.observe.rules import concerns, pop_not_acking
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, ClientRule, Evidence, Holds, Severity, Verdict
from rebalance_model.observe.rules.unresponsive import CLIENT_UNRESPONSIVE, STALE_HEARTBEAT
from rebalance_model.observe.state import ClientView, IncidentKey, Popper, Pops
from rebalance_model.observe.step import GroupStep

FULL, REFUSED, BEHIND_PROXY = "FULL", "REFUSED", "BEHIND_PROXY"


def judge(step: GroupStep, client_id: str) -> Verdict:
    """Check whether the client was full in two answers, or when it last popped."""
    if client_id in step.facts.pops.proxies:
        return _of_proxy(step, step.facts.pops, client_id)
    client, popper = step.state.clients.get(client_id), step.facts.pops.poppers.get(client_id)
    if client is not None and client.full:
        if client.unanswered or client.full_since == client.answered:
            return None  # without an answer the last state counts
        return Holds(_severity(step, client), FULL, client_id, explained_by=pop_not_acking.explains(step))
    if popper is None or client_id not in step.facts.members:
        return CLEAR
    return _by_hook(step, client_id, popper)


def _of_proxy(step: GroupStep, pops: Pops, name: str) -> Verdict:
    """Check when the last POP of all proxies came, while their push consumers send heartbeats."""
    if any(source in step.state.silent for source in pops.sources):
        return None
    last = max(pops.proxies, key=lambda one: pops.proxies[one].popped_at)
    popper, policy = pops.proxies[last], step.policy
    wait = popper.poll_ms + policy.pop_stopped_after
    due = max(popper.popped_at, pops.covered_since) + wait
    # one that has ended may have sent heartbeats till then, and a new one sends them before it pops
    alive = max(due, step.now - policy.proxy_client_silent_after)
    pushing = [
        client_id for client_id, one in pops.proxied.items() if one.pushes and one.last > max(alive, one.since + wait)
    ]
    if name != last or not pushing or step.now <= due:
        return CLEAR
    return Holds(_severity(step, None), BEHIND_PROXY, pushing[0] if len(pushing) == 1 else None)


def _by_hook(step: GroupStep, client_id: str, popper: Popper) -> Verdict:
    """Check when the client's last POP came; one that pulls the topics now has changed its mode."""
    since, policy = step.facts.hooked_since, step.policy
    if since is None:
        return None
    if popper.refused_since and popper.refused_at > popper.popped_at:
        if step.now - popper.refused_since <= policy.pop_refused_after:
            return None
        return Holds(_severity(step, None), REFUSED, client_id, stamp=popper.refused_since)
    if not popper.popped_at or popper.pulled_at > popper.popped_at:
        return CLEAR
    due = max(popper.popped_at, since) + popper.poll_ms + policy.pop_stopped_after
    if step.now <= due:
        return CLEAR
    causes = (IncidentKey(CLIENT_UNRESPONSIVE, client_id), IncidentKey(STALE_HEARTBEAT, client_id))
    return Holds(_severity(step, None), "", client_id, explained_by=causes + pop_not_acking.explains(step))


def evidence(step: GroupStep, client_id: str) -> Evidence:
    """Return what the client has popped and not acknowledged, for how long it has not popped, and what waits."""
    client, popper = step.state.clients.get(client_id), step.facts.pops.poppers.get(client_id)
    if client is None and (by := step.facts.pops.proxies.get(client_id)) is not None:
        return {"pop_age_ms": step.now - by.popped_at, "lag": _lag(step, None)}
    if client is None:
        return {"member": False}
    fields: Evidence = {"unacked": client.unacked, "queues_full": len(client.full)}
    if client.full:
        fields["full_ms"] = client.answered - client.full_since if client.full_since else 0
    if popper is not None:
        fields["pop_age_ms"] = step.now - popper.popped_at if popper.popped_at else None
    if popper is not None and popper.refused_since:
        fields |= {"code": popper.refused_code, "refused_ms": step.now - popper.refused_since}
    return fields | {"lag": _lag(step, client)}


def _severity(step: GroupStep, client: ClientView | None) -> Severity:
    return "critical" if _lag(step, client) else "warning"


def _lag(step: GroupStep, client: ClientView | None) -> int:
    """Return how many messages wait in the queues that the client should pop, as far as is known."""
    full = client.full if client is not None else ()
    return sum(
        queue.lag or 0
        for mq, queue in step.state.queues.items()
        if (any(one.covers(mq) for one in full) if full else mq.topic in step.facts.popped)
    )


RULE = ClientRule(
    "POP_STOPPED",
    judge,
    evidence,
    title="{subject} has stopped popping",
    units={
        "member": "flag",
        "unacked": "messages",
        "queues_full": "count",
        "full_ms": "ms",
        "pop_age_ms": "ms",
        "code": "count",
        "refused_ms": "ms",
        "lag": "messages",
    },
    sub_causes=("", FULL, REFUSED, BEHIND_PROXY),
    concerns=concerns.FULL | concerns.POPS,
    absorbed_by=(
        *OF_BROKER,
        "PROXY_UNREACHABLE",
        "TELEMETRY_GAP",
        "NO_ACTIVE_CLIENTS_WITH_LAG",
    ),
    advice={
        "": Advice(
            what="The member is listed, and has not popped since its last POP was to be answered: it consumes nothing.",
            first_step=(
                "Take a thread dump of the member (mqadmin consumerStatus -s): it is frozen, or as many messages as it "
                "may pop (popThresholdForQueue) wait for its listeners."
            ),
            inspect=("THREADS",),
        ),
        BEHIND_PROXY: Advice(
            short="the clients behind it get nothing",
            what=(
                "The clients behind the proxy send heartbeats, and the proxy has not popped for them since their last "
                "POP was to be answered: they consume nothing."
            ),
            first_step="Restart the clients; look for receive requests that fail since the proxy's restart.",
            inspect=("PROGRESS",),
        ),
        REFUSED: Advice(
            short="the broker refuses it",
            what="The broker refuses every POP of the member: it consumes nothing.",
            first_step=(
                "Look up the response code: 1 is a broker without its timer (timerWheelEnable), 16 a permission, 17 a "
                "topic and 26 a group that is not there, 210 a client whose clock is behind the broker's."
            ),
            inspect=("THREADS", "BROKERS"),
        ),
        FULL: Advice(
            short="it acknowledges nothing",
            what=(
                "The member has popped as many messages as it may (popThresholdForQueue), and acknowledges none: it "
                "pops no more. When they have been invisible for long enough, others get them again."
            ),
            first_step="Take a thread dump of the member (mqadmin consumerStatus -s): its listeners have not returned.",
            inspect=("THREADS",),
        ),
    },
)
