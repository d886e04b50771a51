"""PULL_EXPIRED: a push client has not pulled from its queue for longer than pullMaxIdleTime.

The client repairs that itself at its next rebalance (it drops the queue and starts it anew), so in polls it shows
for 20 s at most. Clear when a pull is seen or the queue goes to another.

By the client's own stamp where it answers. Its stamp goes on while it holds back (flow control, no lock), but the
broker then sees no pull: by the hook alone it is not known of a queue of which so much is cached that the client may
hold back, nor of one that is committed further than its master gave it out: a slave serves it. Nor of a queue that its
owner has given up without a word (`given_up`).

Where both tell, an answer is up to a poll interval old and its stamp a lower bound; the hook is exact. So where the
answer's stamp is as old as the hook says, give or take two intervals, the hook's age counts.
"""

from rebalance_model.broker.consumer_manager import SCAN_PERIOD
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group.expectation import PUSH, group_info
from rebalance_model.observe.hooks import given_up
from rebalance_model.observe.state import HookQueue
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.ages import Ages, told_pull
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, mq: MessageQueue) -> Verdict:
    """By the age of the owner's last pull."""
    ages = Ages.of(turn, mq)
    if ages is None:
        return CLEAR
    info = group_info(turn.state)
    if ages.pull is None or mq.is_retry or info is None or info.consume_type != PUSH:
        return None
    limit = _limit(turn, ages)
    if ages.queue is None:
        return _by_hook(turn, mq, ages, ages.pull)
    if ages.pull > limit:
        return Holds("critical", client_id=turn.state.queues[mq].owner)
    if ages.client.silent:
        turn.schedule_check(turn.now + limit + 1 - ages.pull)
        return None
    told = told_pull(turn, mq)
    by_hook = _by_hook(turn, mq, ages, told) if told is not None and _agree(turn, ages, told) else None
    return by_hook or CLEAR


def _limit(turn: Turn, ages: Ages) -> int:
    """How long the owner may not have pulled: of one that is silent until an answer after its broker's scan lists it.

    A client that is cut off, or stands, is dropped 120 to 130 s after its last heartbeat: until then nothing shows that
    it will go on without pulling.
    """
    limit = turn.policy.pull_max_idle_time
    return limit + SCAN_PERIOD + turn.policy.poll_interval if ages.client.silent else limit


def _agree(turn: Turn, ages: Ages, told: int) -> bool:
    """Whether the client's own stamp, grown older since its answer, is as old as the hook says: it sees every pull."""
    client, queue = ages.client, ages.queue
    if queue is None or told + 2 * turn.policy.poll_interval <= turn.policy.pull_max_idle_time:
        return False
    since = queue.pull.age(client.client_now, client.asked_at_answer) + turn.now - client.asked_at_answer
    return since + 2 * turn.policy.poll_interval >= told


def _by_hook(turn: Turn, mq: MessageQueue, ages: Ages, pull: int) -> Verdict:
    told, hook = turn.state.queues[mq].hook, turn.live_hook(turn.state.views.get(mq.broker))
    limit = turn.policy.pull_max_idle_time
    if told is None or hook is None or not _should_pull(turn, told, ages) or given_up.by_its_owner(turn, mq):
        return None
    if pull > limit:
        return Holds("critical", client_id=turn.state.queues[mq].owner)
    now = turn.now
    turn.schedule_check(now + limit + 1 - pull)
    return CLEAR if now - max(told.pull_time, told.holder_since) <= limit else None


def _should_pull(turn: Turn, told: HookQueue, ages: Ages) -> bool:
    """Whether nothing that the client may have cached, and no missing lock, keeps it from pulling at its master."""
    if turn.state.orderly and not ages.lock_is_exact:
        return False
    if told.start_offset < 0:
        return True  # it has not pulled yet
    ahead = told.pull_offset - told.commit_offset
    batch = turn.policy.pull_batch_size
    return told.commit_offset >= 0 and -batch <= ahead and ahead + batch < turn.policy.pull_threshold_for_queue


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """Age and limit."""
    ages = Ages.of(turn, mq)
    found: Evidence = {"owner": turn.state.queues[mq].owner}
    if ages is not None:
        found |= {
            "pull_age_ms": ages.pull,
            "limit_ms": _limit(turn, ages),
            "cached_count": ages.queue.cached_count if ages.queue is not None else None,
            "silent": ages.client.silent,
        }
    return found


RULE = Rule("PULL_EXPIRED", judge, evidence)
