"""What a group's page works out from the answers: members with what they have, differences, changes."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streaming.dashboard.facts import History, State
from streaming.queries.answers import Coverage, Group, Queue
from streaming.queries.words import queue_name

_RANK = {"BAD": 0, "WARN": 1, "UNKNOWN": 2, "OK": 3}


class Member(NamedTuple):
    """A client and its queues."""

    id: str
    member: bool
    """Whether it is a member: who has a queue may be none any more."""
    queues: int
    expected: int | None
    """How many the strategy gives it; None where that is not known."""
    lag: int | None
    """The sum of what is known of its queues and not stale."""
    troubled: int
    """How many of its queues are not OK."""


def needs_a_look(queue: Queue) -> bool:
    """Whether there is anything about it that is not as it should be."""
    return queue.status != "OK" or queue.is_elsewhere or queue.owner is None


def members(group: Group, queues: Iterable[Queue]) -> list[Member]:
    """The members, and who has queues without being one; who has trouble first, then who has most queues."""
    own: dict[str, list[Queue]] = defaultdict(list)
    expected: Counter[str] = Counter()
    predicted = False
    for queue in queues:
        if queue.owner is not None:
            own[queue.owner].append(queue)
        if queue.expected_owner is not None:
            predicted = True
            expected[queue.expected_owner] += 1
    found = [
        Member(
            client, client in group.members, len(own[client]), expected[client] if predicted else None,
            _sum(queue.lag for queue in own[client] if not queue.lag_is_stale),
            sum(queue.status != "OK" for queue in own[client]),
        )
        for client in sorted({*group.members, *own})
    ]  # fmt: skip
    return sorted(found, key=lambda m: (m.member, -m.troubled, -m.queues, m.id))


def in_order(queues: Iterable[Queue], order: str) -> list[Queue]:
    """Queues by ``status`` (the worst first), ``name`` or ``lag`` (the largest first)."""
    keys = {
        "status": lambda q: (_RANK[q.status], not q.is_elsewhere, q.topic, q.broker, q.queue_id),
        "name": lambda q: (q.topic, q.broker, q.queue_id),
        "lag": lambda q: (-(q.lag if q.lag is not None else -1), q.topic, q.broker, q.queue_id),
    }
    return sorted(queues, key=keys[order])


def matches(queue: Queue, text: str, *, only_differing: bool) -> bool:
    """Whether it is one of those that the user wants to see."""
    if only_differing and not needs_a_look(queue):
        return False
    name = queue_name(queue.topic, queue.broker, queue.queue_id)
    return text in f"{name} {queue.owner or 'unassigned'} {queue.expected_owner or ''}".lower()


def changes(history: History) -> list[int]:
    """The instants of a span at which anything changed, rising."""
    since, until = history.window
    times = {time for i in history.intervals for time in (i.from_time, i.to_time)}
    times |= {time for i in history.incidents for time in (i.opened_at, i.resolved_at)}
    times |= {rebalance.start_time for rebalance in history.rebalances}
    return sorted(time for time in times if time is not None and since <= time <= until)


def before(times: Sequence[int], at: int) -> int | None:
    """The last of them that is earlier."""
    index = bisect_left(times, at)
    return times[index - 1] if index else None


def after(times: Sequence[int], at: int) -> int | None:
    """The first of them that is later."""
    index = bisect_right(times, at)
    return times[index] if index < len(times) else None


def coverage_of(coverage: Coverage) -> str:
    """What there is to judge by, in a line."""
    parts = []
    if coverage.hooks:
        parts.append(f"hooks {coverage.hooks}/{coverage.brokers}")
    if coverage.polls:
        parts.append(f"{coverage.members_answering}/{coverage.members} clients answer")
    if coverage.silent_rules:
        parts.append(f"{len(coverage.silent_rules)} rules can't judge")
    return " · ".join(parts) or "no source tells of it"


def facts(state: State) -> dict[str, int]:
    """The counts of the page's head."""
    return {
        "differing": sum(queue.is_elsewhere for queue in state.queues),
        "unpredicted": sum(queue.expected_owner is None for queue in state.queues),
    }


def _sum(lags: Iterable[int | None]) -> int | None:
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None
