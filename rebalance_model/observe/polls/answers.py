"""Fold a client's report of itself (GET_CONSUMER_RUNNING_INFO): its process queues, or a missing answer."""

from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter

from rebalance_model.dialect import Reported, unreported
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    NO_PERMISSION,
    NOT_SUPPORTED,
    SYSTEM_ERROR,
    UNREACHABLE,
    UNREADABLE,
    ConsumerRunningInfo,
    PopProcessQueueInfo,
    ProcessQueueInfo,
    RpcError,
    Subscription,
    newest_stamp,
)
from rebalance_model.observe.group import member_types, ownership, rebalances, retaken, skipped
from rebalance_model.observe.group.expectation import declared_basis, expect
from rebalance_model.observe.polls import offsets, rounds
from rebalance_model.observe.state import BROADCASTING, ClientView, GroupState, PopTarget, ProcessQueueView, QueueState
from rebalance_model.observe.step import GroupStep

DECLARED = 2
"""A client that has declared the same in this many consecutive answers is taken to mean it."""
POP_THRESHOLD_FOR_QUEUE = 96
"""popThresholdForQueue, where the client does not report it: with more unacknowledged messages of a queue it does not
pop it (DefaultMQPushConsumerImpl.popMessage)."""
_TOPIC = attrgetter("topic")
_DIGITS = 9
"""The digits of the largest number that a property of a client may have."""
_NOT_REACHED = "invoke consumer"
_EXCEPTION = "Exception"
"""In the remark of a broker that could not send the request, or refuses it."""
_NOT_ONLINE = "not online"
"""The broker's remark if it does not know the client (AdminBrokerProcessor.callConsumer). With another remark the same
code means that it could not reach the client on the chosen channel. A broker that restarts may keep a channel that was
closed while it registered; that lasts for 120 s, though the client works on another channel."""


def fold_running_info(step: GroupStep, event: ConsumerRunningInfo) -> None:
    """Replace the client's view by its answer; an answer older than the known one changes nothing.

    What can't be read of an answer is unknown: it shows no restart, no change, and no release of a queue.
    """
    state = step.state
    client = state.clients.get(event.client_id)
    if client is not None and event.asked < client.asked:
        return
    if event.client_id not in state.members and any(view.asked > event.asked for view in state.views.values()):
        return  # the broker has reported since then that it is no member
    if event.error is not None:
        step.changed("REPORT")
        _fold_silence(step, event, client)
        return
    asked_before = client.asked if client is not None else 0
    if client is not None and _repeats(step, event, client):
        _take_stamps(state, event, client)
        step.touched |= (queues := dict.fromkeys(client.queues))
        step.queues_to_judge |= queues
        step.clients_to_judge[event.client_id] = None
        rounds.note(step, event.asked, asked_before)
        return
    if client is not None:
        _note_restart(step, event, client)
    claimed = ownership.known_of(state, event.client_id) if client is not None else {}
    answer = _view(event, client, state)
    is_new = client is None or (client.strategy, client.popped) != (answer.strategy, answer.popped)
    before = declared_basis(step.facts) if is_new else None
    shows_more = client is None or _shows_more(state, client, answer)
    state.clients[event.client_id] = answer
    _note_popper(state, event.client_id, pops=bool(answer.popped))
    ownership.note_claims(state, event.client_id, client.queues if client is not None else (), answer.queues)
    state.orderly = answer.orderly
    if shows_more:
        step.shown_by_one("REPORT")
    step.clients_to_judge[event.client_id] = None
    declared = event.properties.get("PROP_CONSUME_TYPE", ""), event.properties.get("messageModel", "")
    is_news = member_types.note(state, event.client_id, *declared)
    if is_news or client is None or answer.declared < DECLARED or client.declared < DECLARED:
        step.shown_by_one("DECLARED")
    if is_news or (is_new and declared_basis(step.facts) != before):  # of thousands of first answers most add nothing
        expect(step)
    affected = answer.queues | claimed  # including queues that a hook assigns to it and it denies
    discovered = client is not None and client.discovered and not client.answered
    ownership.reconsider(step, affected, evidence="FIRST_SEEN" if discovered else "ANSWER")
    _note_claims(step, event.client_id, answer, affected)
    rounds.note(step, event.asked, asked_before)


def _repeats(step: GroupStep, event: ConsumerRunningInfo, client: ClientView) -> bool:
    """Return whether an answer shows nothing but other stamps and counts than the one before.

    Nothing follows from it then but what their age shows (`rules.concerns`): the client, the only one that has these
    queues by its answer, keeps them.
    """
    state, client_id, listed = step.state, event.client_id, event.queues
    if (
        not client.answered
        or client.unanswered
        or client.unreadable
        or event.unreadable
        or event.incomplete
        or event.pop_queues
        or client_id in state.poppers
        or client_id not in state.members
        or client.declared < DECLARED
        or event.orderly is not client.orderly
        or client.orderly is not state.orderly
        or event.strategy != client.strategy
        or event.start_time != client.start_time
        or event.subscriptions != client.subscriptions
        or BROADCASTING in (state.message_model, client.message_model)
        or state.episode is not None
        or listed is None
        or len(listed) != len(client.queues)
    ):
        return False
    declared, own, queues = event.properties.get("PROP_CONSUME_TYPE"), (client_id,), state.queues
    if declared and (declared, event.properties.get("messageModel")) != (client.consume_type, client.message_model):
        return False
    for info, (mq, kept) in zip(listed, client.queues.items(), strict=True):
        queue = queues[mq]
        if (
            queue.owner != client_id
            or queue.claimants != own
            or not queue.commit_known
            or queue.dropped_by == client_id
            or kept.made
            or kept.dropped
            or info.dropped is not False
            or info.locked is not kept.locked
            or (info.mq is not mq and info.mq != mq)
            or (queue.hook_view is not None and queue.hook_view.holder != client_id)
            or (info.lock_time != kept.last_lock_timestamp and _is_made_anew(info, kept))
        ):
            return False
    return client.queues.keys() >= set(ownership.held_of(state, client_id))


def _take_stamps(state: GroupState, event: ConsumerRunningInfo, client: ClientView) -> None:
    """Bring the view of a client to an answer that repeats the one before, in place."""
    lacks, listed = _unreported(client.language, event), event.queues or ()
    newest = newest_stamp(listed)
    client.skew = offsets.bounds(client, newest, event.time)
    client.asked_before, client.client_now = client.asked_at_answer, newest
    client.asked = client.asked_at_answer = event.asked
    client.answered, client.unanswered_since, client.discovered = event.time, 0, False
    _take_properties(client, event)
    queues, client_id, orderly, ahead = state.queues, event.client_id, bool(client.orderly), client.ahead
    for info, (mq, known) in zip(listed, client.queues.items(), strict=True):
        _take_stamps_of(known, info, event, lacks)
        last = known.newest(orderly=orderly)  # as `_note_seen`, with what is the same for all queues in hand
        queues[mq].owner_seen = client_id, min(last - ahead, event.time) if last is not None else event.asked


def _note_seen(queue: QueueState, client_id: str, client: ClientView, process_queue: ProcessQueueView) -> None:
    """Record when the owner last showed that it works on the queue."""
    newest = process_queue.newest(orderly=bool(client.orderly))
    queue.owner_seen = client_id, client.time_of(newest) if newest is not None else client.asked


def _take_properties(client: ClientView, event: ConsumerRunningInfo) -> None:
    """Take the settings that a client reports, and how many of its threads are in a listener."""
    if event.stacks or event.stacks_asked:
        client.threads_in_listener, client.stacks_at = len(event.stacks), event.asked
    given = event.properties
    client.threads_max = _number(given.get("consumeThreadMax", ""))
    client.consume_timeout = _milliseconds(given.get("consumeTimeout", ""))
    client.pull_interval = _number(given.get("pullInterval", ""))
    client.pull_threshold = _number(given.get("pullThresholdForQueue", ""))
    client.pull_batch = _number(given.get("pullBatchSize", ""))
    client.consume_batch = _number(given.get("consumeMessageBatchMaxSize", ""))


def _shows_more(state: GroupState, client: ClientView, answer: ClientView) -> bool:
    """Return whether an answer shows of the client what was unknown before, or another state of the whole group."""
    if not client.answered or client.unanswered or not client.readable or client.unreadable != answer.unreadable:
        return True
    return (client.strategy, client.popped) != (answer.strategy, answer.popped) or answer.orderly != state.orderly


def _note_popper(state: GroupState, client_id: str, *, pops: bool) -> None:
    """Record whether a client pops; the last one that did is named last."""
    if pops or client_id in state.poppers:
        others = tuple(c for c in state.poppers if c != client_id and c in state.clients)
        state.poppers = (*others, client_id) if pops else others


def _note_restart(step: GroupStep, event: ConsumerRunningInfo, client: ClientView) -> None:
    """Record that the client's process, or its strategy, is another one than in its answer before."""
    if client.start_time and event.start_time not in (None, 0, client.start_time):  # None, 0: unknown
        rebalances.open_or_extend(step, "CLIENT_RESTARTED", event.client_id, client_id=event.client_id)
    if client.strategy and event.strategy not in (None, client.strategy):
        rebalances.open_or_extend(step, "STRATEGY_CHANGED", event.client_id, client_id=event.client_id)


def _fold_silence(step: GroupStep, event: ConsumerRunningInfo, client: ClientView | None) -> None:
    """Process an error, which is no data: the client is gone, or does not answer, or its broker does not."""
    if client is None or event.error is None:
        return
    asked_before, client.asked = client.asked, event.asked
    rounds.note(step, event.asked, asked_before)
    if event.error.code == SYSTEM_ERROR and _NOT_ONLINE in event.error.remark:
        ownership.clear_claims(step, event.client_id, evidence="GONE")
        return
    if _is_of_client(event.error):
        _note_unreadable(step, client, event)
        return
    if not client.answered and _works_unanswered(step, event.client_id):
        _note_unreadable(step, client, event)
        return
    view = step.state.views.get(event.broker)
    broker_is_silent = event.error.code == UNREACHABLE or view is None or view.failing
    if not broker_is_silent:
        client.unanswered_since = client.unanswered_since if client.unanswered else event.asked
        client.unanswered += 1
        step.touched |= dict.fromkeys(client.queues)
        step.queues_to_judge |= dict.fromkeys(client.queues)
        step.clients_to_judge[event.client_id] = None


def _is_of_client(error: RpcError) -> bool:
    """Return whether an error is the client's own answer, or the broker's refusal to ask: it is not silent.

    Clients without this request answer "not supported" (rocketmq-client-go before 2.1.0: code 1), and what they answer
    may be unreadable. The broker's own errors are known by their remarks (AdminBrokerProcessor.callConsumer). A broker
    that does not permit the request to the collector's account (NO_PERMISSION) has not asked the client.
    """
    if error.code == SYSTEM_ERROR:
        return not error.remark.startswith(_NOT_REACHED) and _EXCEPTION not in error.remark
    return error.code in {UNREADABLE, NOT_SUPPORTED, NO_PERMISSION}


def _works_unanswered(step: GroupStep, client_id: str) -> bool:
    """Return whether a client that has never answered still works: it does not know the request.

    By a hook, it renews or takes a queue, pulls or commits; by polls alone, commits advance though no member has ever
    answered.
    """
    state, since = step.state, step.now - step.policy.unresponsive_after
    for mq, queue in state.queues.items():
        hook_view = queue.hook_view
        if hook_view is None or hook_view.holder != client_id or step.hook_of(mq.broker) is None:
            continue
        if max(hook_view.pull_time, hook_view.commit_time, hook_view.holder_since) > since:
            return True
    if any(client.answered for client in state.clients.values()) or step.facts.division == "PROXIED":
        return False
    return state.advanced_at > since


def _note_unreadable(step: GroupStep, client: ClientView, event: ConsumerRunningInfo) -> None:
    """Record that a client is alive, and that its queues are unknown since its last answer."""
    client.readable, client.unanswered = False, 0
    error = event.error
    code = f"answers code {error.code}: " if error is not None and error.code != UNREADABLE else ""
    client.unreadable = (code + error.remark if error is not None else "",)
    step.changed("REPORT")
    step.touched |= dict.fromkeys(client.queues)
    step.queues_to_judge |= dict.fromkeys(client.queues)
    step.clients_to_judge[event.client_id] = None


def _note_claims(step: GroupStep, client_id: str, answer: ClientView, affected: Iterable[MessageQueue]) -> None:
    """Record the claims of two clients to one queue, and clients that keep a dropped queue.

    A member that reads every queue by itself claims none (`member_types.is_outsider`).
    """
    outsider = member_types.is_outsider(step.state, answer)
    for mq in affected:
        queue, process_queue = step.queue(mq), answer.queues.get(mq)
        if process_queue is not None and queue.owner == client_id:
            _note_seen(queue, client_id, answer, process_queue)
            if process_queue.made and queue.stalled_ms:
                retaken.note(step, mq, queue, client_id, answer.time_of(process_queue.made))
            if step.state.episode is not None:
                rebalances.note_answer(step, step.state.episode, mq, client_id)
            if not queue.commit_known:
                skipped.note_answer(step, mq, client_id, process_queue)
                offsets.note_first(queue, process_queue.first_offset)
        if process_queue is not None and process_queue.dropped:
            queue.dropped_by = client_id
        elif queue.dropped_by == client_id:
            queue.dropped_by = None
        if (
            process_queue is not None
            and not process_queue.dropped
            and queue.owner not in (None, client_id)
            and not outsider
        ):
            queue.rival = client_id
        elif queue.rival == client_id:
            queue.rival = None


def _declared(event: ConsumerRunningInfo, client: ClientView | None, declared: tuple[bool | None, str]) -> int:
    """Return in how many consecutive answers the client has declared the same consume mode and strategy."""
    if client is None or (client.orderly, client.strategy) != declared:
        return 1
    before, now = client.subscriptions, event.subscriptions
    return min(client.declared + 1, DECLARED) if before == now or _topics(before) == _topics(now) else 1


def _topics(subscriptions: Iterable[Subscription]) -> set[tuple[str, str, str | None]]:
    """Return what is subscribed. The versions do not count: a client in .NET takes the time of each answer."""
    return {(s.topic, s.expression_type, s.sub_string) for s in subscriptions}


def _view(event: ConsumerRunningInfo, client: ClientView | None, state: GroupState) -> ClientView:
    former = client if client is not None else ClientView(0, 0, orderly=state.orderly)
    language = former.language if former.answered else _language_of(state, event.client_id)
    lacks = _unreported(language, event)
    former_queues = former.queues
    infos = {info.mq: info for info in event.queues or ()}  # of a queue that is there twice, the last one
    queues = {mq: _process_queue(info, former_queues.get(mq), event, lacks) for mq, info in infos.items()}
    newest = newest_stamp(infos.values(), event.pop_queues)
    orderly = event.orderly if event.orderly is not None else former.orderly
    strategy = event.strategy if event.strategy is not None else former.strategy
    full = _full(event) if event.pop_queues else ()
    view = ClientView(
        asked=event.asked,
        answered=event.time,
        asked_at_answer=event.asked,
        client_now=newest,
        orderly=orderly,
        strategy=strategy,
        start_time=event.start_time if event.start_time is not None else former.start_time,
        subscriptions=tuple(sorted(event.subscriptions, key=_TOPIC)),
        asked_before=former.asked_at_answer,
        declared=_declared(event, client, (orderly, strategy)),
        popped=_places(event.pop_queues),
        full=full,
        full_since=(former.full_since or event.time) if full else 0,
        unacked=_unacked(event),
        skew=offsets.bounds(client, newest, event.time),
        heartbeat_subscriptions=former.heartbeat_subscriptions,
        subscriptions_observed_at=former.subscriptions_observed_at,
        queues=former_queues | queues if event.incomplete else queues,
        unreadable=event.unreadable,
        threads_in_listener=former.threads_in_listener,
        stacks_at=former.stacks_at,
        consume_type=former.consume_type,
        message_model=former.message_model,
        language=language,
    )
    _take_properties(view, event)
    return view


def _unreported(language: str, event: ConsumerRunningInfo) -> frozenset[Reported]:
    """Return what a client of a language never reports, by the version in its answer."""
    return unreported(language, event.properties.get("PROP_CLIENT_VERSION", ""))


def _milliseconds(minutes: str) -> int | None:
    """Return a client's property that is a number of minutes, in milliseconds; None if it is none."""
    number = _number(minutes)
    return number * 60_000 if number is not None else None


def _places(queues: Iterable[PopProcessQueueInfo]) -> tuple[PopTarget, ...]:
    """Return the queues that a client pops, without those that it has given up."""
    return tuple(PopTarget(one.topic, one.broker, one.queue_id) for one in queues if not one.dropped)


def _full(event: ConsumerRunningInfo) -> tuple[PopTarget, ...]:
    """Return the queues that a client does not pop, as too many messages of them wait for its acknowledgement."""
    limit = _number(event.properties.get("popThresholdForQueue", "")) or POP_THRESHOLD_FOR_QUEUE
    return _places(one for one in event.pop_queues if (one.wait_ack_count or 0) > limit)


def _unacked(event: ConsumerRunningInfo) -> int | None:
    counts = [one.wait_ack_count for one in event.pop_queues if not one.dropped]
    return sum(count or 0 for count in counts) if counts and None not in counts else None


@lru_cache(maxsize=1024)
def _number(text: str) -> int | None:
    """Return a client's property that is a number above 0; None if it is none that any client has."""
    return int(text) if text.isascii() and text.isdecimal() and 0 < len(text) <= _DIGITS and int(text) else None


def _is_made_anew(info: ProcessQueueInfo, former: ProcessQueueView) -> bool:
    """Return whether the client has made the process queue since its answer before, and consumed nothing of it since.

    Its stamps begin again then (ProcessQueue). That of an ordered queue's lock is renewed later, that of a concurrent
    one's, which nobody locks, stays.
    """
    made, consumed = info.lock_time, info.consume_time
    before, consumed_before = former.last_lock_timestamp, former.last_consume_timestamp
    if not (made and consumed and before and consumed_before) or made <= before or consumed <= consumed_before:
        return False
    return abs(consumed - made) <= retaken.MADE_WITHIN


def _process_queue(
    info: ProcessQueueInfo, former: ProcessQueueView | None, event: ConsumerRunningInfo, lacks: frozenset[Reported]
) -> ProcessQueueView:
    """Bring the view of a process queue to the state in the answer, in place: a client has thousands of them."""
    dropped = bool(info.dropped)
    view = former if former is not None else ProcessQueueView(None, None, None)
    if former is None or former.dropped != dropped:
        view.dropped, view.claimed_since, view.first_unlock_attempts = dropped, event.asked, 0
    if former is not None and _is_made_anew(info, former):
        view.made = info.lock_time or 0
    _take_stamps_of(view, info, event, lacks)
    return view


def _take_stamps_of(
    view: ProcessQueueView, info: ProcessQueueInfo, event: ConsumerRunningInfo, lacks: frozenset[Reported]
) -> None:
    """Take the stamps and counts of a process queue that is otherwise as it was; 0 is unknown of what it ``lacks``."""
    if tried := info.unlock_attempts:
        view.first_unlock_attempts = view.first_unlock_attempts or tried
    view.commit_offset = info.commit_offset
    view.cached_count, view.transaction_count, view.first_offset = (
        info.cached_count, info.transaction_count, info.first_offset,
    )  # fmt: skip
    if lacks:
        view.cached_count = info.cached_count or (None if "CACHED" in lacks else info.cached_count)
        view.transaction_count = info.transaction_count or (None if "IN_LISTENER" in lacks else info.transaction_count)
    view.locked, view.try_unlock_times = info.locked, tried
    if view.last_lock_timestamp != info.lock_time:
        view.last_lock_timestamp, view.lock_seen = info.lock_time, event.time
    if view.last_pull_timestamp != info.pull_time:
        view.last_pull_timestamp, view.pull_seen = info.pull_time, event.time
    if view.last_consume_timestamp != info.consume_time:
        view.last_consume_timestamp, view.consume_seen = info.consume_time, event.time


def _language_of(state: GroupState, client_id: str) -> str:
    """Return the language of a client as a broker lists it; empty: none does."""
    for view in state.views.values():
        for channel in view.info.channel_info_table.values():
            if channel.client_id == client_id and channel.language:
                return channel.language
    return ""
