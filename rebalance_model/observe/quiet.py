"""The usual case of a step: there is nothing to conclude about the queues and clients that it names.

It is what `rules.judgement` and `snapshots` would find of a group by polls: no flag of a named queue or client
(`rules.concerns`), and no other value in its row. It is found in one pass, without a call for each question, because
most answers are of this kind. It may be False without a reason, which costs time.
`tests/core/observe/test_quiet_path.py` folds logs with it and without it.
"""

from rebalance_model.observe.step import GroupStep


def is_quiet(step: GroupStep) -> bool:
    """Return whether certainly nothing is to be judged, and no row to be written."""
    state = step.state
    if (
        step.group_touched
        or step.brokers_to_judge
        or len(step.touched) != len(step.queues_to_judge)
        or state.reread
        or state.episode is not None
        or not state.members
    ):
        return False
    if not (step.queues_to_judge or step.clients_to_judge):
        return True  # most pulls and commits
    return _is_plain(step) and _are_queues_quiet(step) and _are_clients_quiet(step)


def _is_plain(step: GroupStep) -> bool:
    """Return whether the group is known by polls alone, pops nothing, and its brokers have no incident."""
    state = step.state
    if step.cluster.incidents or state.pops is not None or state.poppers or not state.is_polled:
        return False
    for view in state.views.values():
        if view.hook is not None or view.not_created is not None or view.doubled:
            return False
    return True


def _are_queues_quiet(step: GroupStep) -> bool:
    """Return whether no queue has a flag or another row: its owner, which answers, is the expected one."""
    state, policy, now = step.state, step.policy, step.now
    queues, clients, unsettled = state.queues, state.clients, state.unsettled
    limit = min(policy.client_lock_max_live_time, policy.pull_max_idle_time)
    stuck_after, rising_since = min(policy.stuck_after, policy.fifo_stuck_after), now - policy.lag_growth_window
    for mq, news in step.queues_to_judge.items():
        queue = queues[mq]
        row, trend, owner_id = queue.last_row, queue.lag_trend, queue.owner
        owner = clients.get(owner_id) if owner_id is not None else None
        if (
            owner is None
            or row is None
            or queue.hook_view is not None
            or queue.expected_owner != owner_id
            or queue.stalled_ms > stuck_after
            or queue.fallen_back is not None
            or queue.newest_fall is not None
            or queue.beyond_since
            or queue.rival is not None
            or queue.dropped_by is not None
            or queue.ended is not None
            or (trend is not None and queue.stats_at == now and trend.rising_since <= rising_since)
            or owner.unanswered
            or not owner.readable
            or row.status != "OK"
            or row.status_reason
            or row.owner != owner_id
            or row.expected_owner != owner_id
            or row.shared_by is not None
        ):
            return False
        answer = owner.queues.get(mq)
        if (
            answer is None
            or row.locked is not (answer.locked if owner.orderly else None)
            or (news is None and not owner.is_fresh(answer, limit))
            or (unsettled and str(mq) in unsettled)
        ):
            return False
    return True


def _are_clients_quiet(step: GroupStep) -> bool:
    """Return whether no client has a flag, nor an incident."""
    state, limit = step.state, step.policy.clock_skew
    for client_id in step.clients_to_judge:
        client = state.clients.get(client_id)
        if client is None or client.unanswered or client.full or client_id in state.unsettled:
            return False
        if client.skew is not None and (client.skew[0] > limit or client.skew[1] < -limit):
            return False
    return True
