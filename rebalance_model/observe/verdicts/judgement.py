"""Which rules are judged when: those of what the turn has touched; on a deadline, all.

Every rule gets its say on what it is about as soon as something is learnt of it. What time alone changes a rule asks
for (`Turn.schedule_check`), and then everything of the group is judged anew: simpler than an index by rule and subject,
and rare (a group is looked at again about every 30 s; one of many queues each second at most).
"""

from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.coverage import NEED_OFFSETS, NEED_POLLS
from rebalance_model.observe.verdicts.incidents import apply
from rebalance_model.observe.verdicts.rules import (
    BROKER_RULES,
    CLIENT_RULES,
    GROUP_RULES,
    QUEUE_RULES,
    REBALANCE_RULES,
    duplicate_consumption,
)

_OF_CLIENTS = frozenset(rule.code for rule in CLIENT_RULES)
_WITHOUT_POLLS = frozenset((*NEED_POLLS, *NEED_OFFSETS))
"""The codes of rules that say nothing where no collector is followed, or it is silent."""


def judge(turn: Turn) -> None:
    """Judge what the turn has touched; broad causes first, so that their children find them open."""
    silent = _WITHOUT_POLLS if not turn.state.is_polled else frozenset()
    for broker in turn.brokers_to_judge:
        apply(turn, BROKER_RULES, broker, silent)
    if turn.group_to_judge:
        _look_at_open(turn)
        apply(turn, GROUP_RULES, "", silent)
    for client_id in turn.clients_to_judge:
        apply(turn, CLIENT_RULES, client_id, silent)
    for mq in turn.queues_to_judge:
        turn.judged, turn.ages = mq, None
        apply(turn, QUEUE_RULES, mq, silent)
    turn.judged = None
    for rebalance_id in duplicate_consumption.note(turn):
        apply(turn, REBALANCE_RULES, rebalance_id, silent)
    duplicate_consumption.forget(turn)


def judge_all(turn: Turn) -> None:
    """Judge everything that the group has, as when a deadline has come."""
    state = turn.state
    turn.group_to_judge = True
    turn.brokers_to_judge |= dict.fromkeys(state.views)
    turn.clients_to_judge |= dict.fromkeys(state.clients)
    turn.queues_to_judge |= dict.fromkeys(state.queues)
    judge(turn)


def _look_at_open(turn: Turn) -> None:
    """Members, owners or routes have changed: what is open may be about somebody who is gone."""
    turn.queues_to_judge |= {one.queue: None for one in turn.state.incidents.values() if one.queue is not None}
    for name in (*turn.state.incidents, *turn.state.pending):
        code, _, subject = name.partition(" ")
        if code in _OF_CLIENTS and subject not in turn.state.views:  # CLOCK_SKEW is of brokers, too
            turn.clients_to_judge[subject] = None
