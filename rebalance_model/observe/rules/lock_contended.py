"""LOCK_CONTENDED: two living clients want one queue.

REFUSED: a member keeps the lock, and another asks for it again and again. TO_AND_FRO: the lock goes from one to the
other and back, twice, while the members stay the same: in a rollout a queue goes to and fro as well, but each time
the shares are others. At start-up every queue is asked for by two clients and refused once or twice, and a client that
thaws asks six times within milliseconds: neither is contention.

How long a refusal must last is measured: after 5 s, as first designed, a rollout of 50 clients in the lab showed
12 contentions that were none. Heirs were refused for up to 15 s until their predecessors' turn, and for up to 25 s
where a topic's queues change (tests/PROVED.md). So it is 50 s (`Policy.lock_contended_after`).
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, QueueRule, Verdict
from rebalance_model.observe.state import HookQueueView
from rebalance_model.observe.step import GroupStep

REFUSALS = 3
TURNS = 4


def judge(step: GroupStep, mq: MessageQueue) -> Verdict:
    """By what the broker answered to those who asked for the lock."""
    hook_view = step.state.queues[mq].hook_view
    if hook_view is None or not (hook_view.refusals or len(hook_view.lock_handovers) == TURNS):
        return CLEAR
    view = step.state.views.get(mq.broker)
    hook = step.live_hook(view)
    if view is None or hook is None:
        return None
    entry = hook.locks.get(mq)
    if entry is not None and view.lists(entry.client_id) and _is_refused(step, hook_view):
        return Holds("warning", "REFUSED", entry.client_id)
    return Holds("warning", "TO_AND_FRO") if _goes_to_and_fro(step, hook_view) else CLEAR


def evidence(step: GroupStep, mq: MessageQueue) -> Evidence:
    """Who has it, who asks, and who had it in turn."""
    hook_view = step.state.queues[mq].hook_view or HookQueueView()
    asked = {client_id: r for client_id, r in hook_view.refusals.items() if r.kept >= REFUSALS}
    return {
        "holder": hook_view.holder,
        "asked_by": ", ".join(sorted(asked)),
        "refusals": sum(r.count for r in asked.values()),
        "asking_ms": max((r.last - r.first for r in asked.values()), default=0),
        "taken_by": ", ".join(client_id for client_id, *_ in hook_view.lock_handovers),
    }


def _is_refused(step: GroupStep, hook_view: HookQueueView) -> bool:
    """Whether somebody is refused for long, all the time for the sake of a member, and still asks."""
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


def _goes_to_and_fro(step: GroupStep, hook_view: HookQueueView) -> bool:
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
    units={"holder": "text", "asked_by": "text", "refusals": "count", "asking_ms": "ms", "taken_by": "text"},
    sub_causes=("REFUSED", "TO_AND_FRO"),
    needs=("HOOKS",),
    clear_after=lambda policy: policy.lock_contended_window,
    absorbed_by=("REBALANCE_STORM",),
    advice={
        "REFUSED": Advice(
            what="A living member keeps the queue's lock, and another one asks for it again and again in vain.",
            first_step=(
                "Compare what both take for the members (client ids, subscriptions): one of them works from another "
                "list."
            ),
        ),
        "TO_AND_FRO": Advice(
            what="Two members take the queue's lock from each other in turn.",
            first_step=(
                "Compare both clients' strategy, client id and subscriptions: they do not agree who should have the "
                "queue."
            ),
        ),
    },
)
