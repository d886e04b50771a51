"""LOCK_CONTENDED: two living clients request the lock of one queue.

REFUSED: a member keeps the lock, and another one requests it repeatedly. ALTERNATING: the lock goes from one client to
the other and back, twice, while the members stay the same. (In a rollout a queue changes hands repeatedly as well, but
the assignment is different each time.) At start-up two clients request each queue, and one of them is refused once or
twice; a client that thaws sends six requests within milliseconds. Neither is contention.

How long a refusal must last was measured: with the 5 s of the first design, a rollout of 50 clients in the lab showed
12 false contentions. New owners were refused for up to 15 s until the former owners' next rebalance, and for up to 25 s
when a topic's queues change. Hence 50 s (`Policy.lock_contended_after`).
"""

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.hooks.lock_requests import HANDOVERS_KEPT
from rebalance_model.observe.rules import concerns, route_view_split
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, QueueRule, Verdict
from rebalance_model.observe.state import HookQueueView
from rebalance_model.observe.step import GroupStep

REFUSALS = 3
"""A client counts as contending after this many refusals."""
TURNS = HANDOVERS_KEPT
"""The lock alternates if this many handovers go from one client to the other."""


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check the broker's answers to the clients that requested the lock."""
    hook_view = q.seen
    if hook_view is None or not (hook_view.refusals or len(hook_view.lock_handovers) == TURNS):
        return CLEAR
    if q.calls is None:
        return None
    entry = q.lock
    if entry is not None and step.state.views[q.mq.broker].lists(entry.client_id) and _is_refused(step, hook_view):
        by_routes = route_view_split.explains(step, q.mq)
        return Holds("warning", "REFUSED", entry.client_id, explained_by=by_routes)
    return Holds("warning", "ALTERNATING") if _alternates(step, hook_view) else CLEAR


def evidence(_: GroupStep, q: QueueFacts) -> Evidence:
    """Return the holder, the requesting clients, and the recent holders."""
    hook_view = q.seen or HookQueueView()
    refused = {client_id: r for client_id, r in hook_view.refusals.items() if r.kept >= REFUSALS}
    return {
        "holder": hook_view.holder,
        "asked_by": ", ".join(sorted(refused)),
        "refusals": sum(r.count for r in refused.values()),
        "asking_ms": max((r.last - r.first for r in refused.values()), default=0),
        "taken_by": ", ".join(client_id for client_id, *_ in hook_view.lock_handovers),
    }


def _is_refused(step: GroupStep, hook_view: HookQueueView) -> bool:
    """Return whether a client has long been refused the lock in favor of a member, and still requests it."""
    now, policy = step.now, step.policy
    lasting = [
        r.last
        for r in hook_view.refusals.values()
        if r.kept >= REFUSALS and r.last - max(r.first, r.orphaned) > policy.lock_contended_after
    ]
    if not lasting or now - max(lasting) > policy.rebalance_wait_interval:
        return False
    step.schedule_check(max(lasting) + policy.rebalance_wait_interval + 1)
    return True


def _alternates(step: GroupStep, hook_view: HookQueueView) -> bool:
    if len(hook_view.lock_handovers) < TURNS:
        return False
    clients, times, among = zip(*hook_view.lock_handovers, strict=True)
    until = times[0] + step.policy.lock_contended_window
    if clients[:2] != clients[2:] or len(set(among)) > 1 or step.now > until:
        return False
    step.schedule_check(until + 1)
    return True


RULE = QueueRule(
    "LOCK_CONTENDED",
    judge,
    evidence,
    title="Two clients compete for the lock of {subject}",
    units={"holder": "text", "asked_by": "text", "refusals": "count", "asking_ms": "ms", "taken_by": "text"},
    sub_causes=("REFUSED", "ALTERNATING"),
    concerns=concerns.LOCK_REFUSED,
    needs=("HOOKS",),
    clear_after=lambda policy: policy.lock_contended_window,
    absorbed_by=(
        "REBALANCE_STORM",
        "MIXED_MEMBERS",
    ),
    advice={
        "REFUSED": Advice(
            short="a member keeps it, another one is refused",
            what="A living member keeps the queue's lock, and another one requests it repeatedly without success.",
            first_step=(
                "Compare the members that both clients see (client ids, subscriptions): one of them uses another list."
            ),
            inspect=("COMPARE", "MEMBERS"),
        ),
        "ALTERNATING": Advice(
            short="they take it from each other",
            what="Two members take the queue's lock from each other alternately.",
            first_step=(
                "Compare both clients' strategy, client id and subscriptions: they disagree about the owner of the "
                "queue."
            ),
            inspect=("COMPARE", "MEMBERS"),
        ),
    },
)
