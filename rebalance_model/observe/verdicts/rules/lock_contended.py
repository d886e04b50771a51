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
from rebalance_model.observe.state import HookQueue
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict

REFUSALS = 3
TURNS = 4


def judge(turn: Turn, mq: MessageQueue) -> Verdict:
    """By what the broker answered to those who asked for the lock."""
    told = turn.state.queues[mq].hook
    if told is None or not (told.refusals or len(told.takers) == TURNS):
        return CLEAR
    view = turn.state.views.get(mq.broker)
    hook = turn.live_hook(view)
    if view is None or hook is None:
        return None
    entry = hook.locks.get(mq)
    if entry is not None and view.lists(entry.client_id) and _is_refused(turn, told):
        return Holds("warning", "REFUSED", entry.client_id)
    return Holds("warning", "TO_AND_FRO") if _goes_to_and_fro(turn, told) else CLEAR


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """Who has it, who asks, and who had it in turn."""
    told = turn.state.queues[mq].hook or HookQueue()
    asked = {client_id: r for client_id, r in told.refusals.items() if r.kept >= REFUSALS}
    return {
        "holder": told.holder,
        "asked_by": ", ".join(sorted(asked)),
        "refusals": sum(r.count for r in asked.values()),
        "asking_ms": max((r.last - r.first for r in asked.values()), default=0),
        "taken_by": ", ".join(client_id for client_id, *_ in told.takers),
    }


def _is_refused(turn: Turn, told: HookQueue) -> bool:
    """Whether somebody is refused for long, all the time for the sake of a member, and still asks."""
    now, policy = turn.now, turn.policy
    lasting = [
        r.last
        for r in told.refusals.values()
        if r.kept >= REFUSALS and r.last - max(r.first, r.orphaned) > policy.lock_contended_after
    ]
    if not lasting or now - max(lasting) > policy.rebalance_wait_interval:
        return False
    turn.schedule_check(max(lasting) + policy.rebalance_wait_interval + 1)
    return True


def _goes_to_and_fro(turn: Turn, told: HookQueue) -> bool:
    if len(told.takers) < TURNS:
        return False
    clients, times, among = zip(*told.takers, strict=True)
    until = times[0] + turn.policy.lock_contended_window
    if clients[:2] != clients[2:] or len(set(among)) > 1 or turn.now > until:
        return False
    turn.schedule_check(until + 1)
    return True


RULE = Rule(
    "LOCK_CONTENDED",
    judge,
    evidence,
    clear_after=lambda policy: policy.lock_contended_window,
    absorbed_by=("REBALANCE_STORM",),
)
