"""Fold the calls of consumers that pop: who pops what, what is acknowledged, and what comes back.

Any client may pop from any group and topic. So that a member pops is known from calls on its own channel alone; the
calls of a proxy, which uses its channels for all of its clients, count for the queues. A broker without members, as
proxies' clients are none, does not count as observed by such calls (`hook.fold_hook`).
"""

from collections.abc import Iterator

from rebalance_model.entities import RETRY_TOPIC_PREFIX, MessageQueue
from rebalance_model.observe.events import (
    AckMessage,
    ChangeMessageInvisibletime,
    PopMessage,
    ProxyHeartBeat,
    PullMessage,
    source_of,
)
from rebalance_model.observe.events.hook_events import PoppedEvent
from rebalance_model.observe.group import proxied
from rebalance_model.observe.group.expectation import expect
from rebalance_model.observe.group.ghost_connections import client_of_channel
from rebalance_model.observe.group.proxied import PROXIED_FORGOTTEN
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import (
    PUSH,
    GroupState,
    Popper,
    Pops,
    PopTarget,
    ProxiedClient,
    RequestModes,
    popped,
    popped_queues,
)
from rebalance_model.observe.state.popped import PoppedQueue
from rebalance_model.observe.state.pops import WINDOW_MS
from rebalance_model.observe.step import GroupStep

NEVER = 2**62
"""A time after every event; epoch milliseconds."""
POP_REMEMBERED = 600_000
"""A member that hangs, or is frozen, has popped a topic within this time; milliseconds. It ends when it pulls it."""
MODE_SEEN = 30_000
"""A topic is pulled, or popped, if it was within this time; milliseconds."""
REJECTED_FROM = 60_000
"""A message that is refused for this long has been delivered several times: the delays grow from 10 s; milliseconds."""
CLIENTS_MAX = 4_096
"""Clients of proxies, and members that pop, that are kept of a group."""
TOPICS_MAX, TARGETS_MAX = 1_024, 1_024
"""Popped topics whose pulls are watched, and places where one member pops."""
PROXIES_MAX = 64
"""Hosts of proxies that are kept of a group."""
SOURCES_MAX = 1_024
"""Hooks that are kept of a group."""
BOTH_ENDED_AFTER = 60_000
"""A topic is no longer popped and pulled at once if one of both was last seen this long ago; milliseconds."""


def cover_from(state: GroupState, at: int) -> None:
    """Note that calls before a time may be missing: what did not come until then proves nothing."""
    if state.pops is not None:
        state.pops.covered_since = max(state.pops.covered_since, at)


def on_gap(step: GroupStep, broker: str) -> None:
    """Begin again for a broker of which calls are missing, or that has restarted."""
    if step.state.pops is not None:
        popped_queues.forget(step.state.pops.queues, broker, step.now)
        cover_from(step.state, step.now)


def skip_idle_time(state: GroupState, now: int) -> None:
    """Begin again after a time without a report of any source."""
    if state.pops is not None:
        popped_queues.forget_all(state.pops.queues, now)
        cover_from(state, now)


def fold(step: GroupStep, event: PoppedEvent | ProxyHeartBeat) -> None:
    """Process a call."""
    state = step.state
    pops = state.pops
    if pops is None:
        pops = state.pops = Pops()
        step.changed("REPORT")
    source = source_of(event)
    if source not in pops.sources and len(pops.sources) < SOURCES_MAX:
        pops.sources[source] = None
    if isinstance(event, ProxyHeartBeat):
        _note_proxied(step, pops, event)
    else:
        _fold_call(step, pops, event, _member_of(step, event))


def _fold_call(step: GroupStep, pops: Pops, event: PoppedEvent, client_id: str | None) -> None:
    mq, kind = popped_queues.fold(pops.queues, event, by_proxy=client_id is None)
    if client_id is None:
        _note_proxys_call(step, pops, event, kind)
    match event:
        case PopMessage():
            _note_pop(step, pops, event, client_id)
        case AckMessage() if event.code in popped.DONE:
            pops.acked.add(step.now, sum(last - first + 1 for first, last in event.ranges))
            _note_finished(step, pops, client_id)
        case ChangeMessageInvisibletime() if kind == "REFUSED":
            _note_finished(step, pops, client_id)
            _note_rejected(step, pops, event)
        case _:
            pass
    _judge_queue(step, pops, mq)


def proxy_of(channel: str) -> str:
    """Return how the proxy of a channel is named: by its host, as it uses several channels."""
    return f"proxy {channel.rpartition(':')[0] or channel}"


def _note_proxys_call(step: GroupStep, pops: Pops, event: PoppedEvent, kind: str) -> None:
    """Note a call on a channel that is no member's: it acknowledges for all of the proxy's clients together."""
    name = proxy_of(event.channel)
    if event.code not in popped.DONE or (name not in pops.proxies and len(pops.proxies) >= PROXIES_MAX):
        return
    match event:
        case PopMessage():
            popper = pops.proxies.setdefault(name, Popper(event.first_time))
            popper.popped_at, popper.poll_ms = event.last_time, max(event.poll_ms, popper.poll_ms)
            popper.pops.add(step.now, event.count)
            target = PopTarget(event.topic, event.broker, event.queue_id)
            if target in popper.targets or len(popper.targets) < TARGETS_MAX:
                popper.targets[target] = step.now
            _check_at(step, *_due_of(popper, step.policy)[:2])
            if name in step.state.unsettled:
                step.clients_to_judge[name] = None
        case AckMessage():
            _note_end(step, pops.proxies.get(name), name)
        case _ if kind == "REFUSED":
            _note_end(step, pops.proxies.get(name), name)
        case _:
            pass


def _note_end(step: GroupStep, popper: Popper | None, name: str) -> None:
    if popper is not None:
        popper.finished_at = step.now
        popper.pops.counts.clear()  # those before it had been answered
        if name in step.state.unsettled:
            step.clients_to_judge[name] = None


def note_pull(step: GroupStep, pops: Pops, event: PullMessage, client_id: str | None) -> None:
    """Process pulls of a group that pops: of a topic that is popped, too, each message is consumed twice."""
    modes = pops.modes.get(event.topic)
    if modes is None:
        return
    modes.pulled_at = step.now
    _note_both(step, modes)
    popper = pops.poppers.get(client_id) if client_id is not None else None
    if popper is not None:
        popper.pulled_at = step.now
        pops_now = popper.active(step.now)
        left = [one for one in popper.targets if one.topic == event.topic and one not in pops_now]
        for target in left:
            del popper.targets[target]
        if left:
            _follow(step)


def scan(step: GroupStep) -> None:
    """Apply what time alone changes, and schedule the next check."""
    pops = step.state.pops
    if pops is None:
        return
    _give_back(step, pops, step.now)
    popped_queues.forget_unused(pops.queues, step.now)
    _scan_clients(step, pops)
    _scan_modes(step, pops)
    for mq, queue in pops.queues.queues.items():
        if mq not in step.state.queues and held_since(queue) < step.now - step.policy.pop_held_after:
            step.queue(mq)  # no answer and no route has shown it
    _check_at(step, *_due(pops, step.policy))


def _check_at(step: GroupStep, *times: int) -> None:
    """Schedule a check at each of these times that is still to come."""
    for at in times:
        if step.now < at < NEVER:
            step.schedule_check(at)


def _scan_clients(step: GroupStep, pops: Pops) -> None:
    before = step.now - POP_REMEMBERED if not pops.proxied else step.now - step.policy.group_memory
    for name in [one for one, popper in pops.proxies.items() if popper.popped_at < before]:
        del pops.proxies[name]
        step.clients_to_judge[name] = None
    changed = [client_id for client_id, popper in pops.poppers.items() if _drop_targets(popper, step.now)]
    for client_id in [client_id for client_id in pops.poppers if client_id not in step.facts.members]:
        del pops.poppers[client_id]
        step.clients_to_judge[client_id] = None
        changed.append(client_id)
    if changed:
        _follow(step)
    for client_id in [c for c, one in pops.proxied.items() if step.now - one.last > PROXIED_FORGOTTEN]:
        proxied.drop_beating(step, pops, client_id)


def _scan_modes(step: GroupStep, pops: Pops) -> None:
    now = step.now
    pops.modes = {t: one for t, one in pops.modes.items() if now - one.popped_at <= step.policy.group_memory}
    for modes in pops.modes.values():
        if min(modes.popped_at, modes.pulled_at) < now - BOTH_ENDED_AFTER:
            modes.both_since = 0


def _due(pops: Pops, policy: Policy) -> Iterator[int]:
    """Yield when time alone may change something next, among times that have passed; epoch milliseconds."""
    for popper in (*pops.poppers.values(), *pops.proxies.values()):
        yield from _due_of(popper, policy)
        yield from (at + POP_REMEMBERED + 1 for at in popper.targets.values())
    for queue in pops.queues.queues.values():
        yield from (one.returned_at + 1 for one in queue.unacked)
        yield held_since(queue) + policy.pop_held_after + 1
    for modes in pops.modes.values():
        if modes.both_since:
            yield modes.both_since + policy.request_mode_mixed_after + 1
            yield min(modes.popped_at, modes.pulled_at) + BOTH_ENDED_AFTER + 1
    for client in pops.proxied.values():
        yield client.last + policy.proxy_client_silent_after + 1
        yield client.last + PROXIED_FORGOTTEN + 1
    yield from (pops.expired_at + WINDOW_MS + 1, pops.rejected_at + WINDOW_MS + 1)


def _due_of(popper: Popper, policy: Policy) -> tuple[int, int, int]:
    """Return when a member may have stopped to pop, to acknowledge, or was refused for long; epoch milliseconds."""
    return (
        popper.popped_at + popper.poll_ms + policy.pop_stopped_after + 1,
        max(popper.since, popper.finished_at) + policy.pop_not_acking_after + 1,
        popper.refused_since + policy.pop_refused_after + 1,
    )


def held_since(queue: PoppedQueue) -> int:
    """Return when the oldest of the messages was popped that are held; far in the future: none is."""
    return min((held.first_pop for held in queue.held_messages.values()), default=NEVER)


def _member_of(step: GroupStep, event: PoppedEvent) -> str | None:
    """Return the member whose own channel the call came on; None: a proxy's, or unknown."""
    view = step.state.views.get(event.broker)
    if view is None or view.hook is None:
        return None
    client_id = client_of_channel(view, view.hook, event.channel)
    return client_id if client_id in step.facts.members else None


def _note_pop(step: GroupStep, pops: Pops, event: PopMessage, client_id: str | None) -> None:
    done, now = event.code in popped.DONE, step.now
    if done and (event.topic in pops.modes or len(pops.modes) < TOPICS_MAX):
        modes = pops.modes.setdefault(event.topic, RequestModes())
        modes.popped_at = now
        _note_both(step, modes)
    popper = _popper(pops, client_id, event.first_time)
    if popper is None or client_id is None:
        return
    if not done:
        _note_refused(step, popper, event)
        step.clients_to_judge[client_id] = None
        return
    popper.refused_since, popper.popped_at, popper.poll_ms = 0, event.last_time, event.poll_ms
    popper.pops.add(now, event.count)
    target = PopTarget(event.topic, event.broker, event.queue_id)
    is_new = target not in popper.targets
    if not is_new or len(popper.targets) < TARGETS_MAX:
        popper.targets[target] = now
    if is_new:
        _follow(step)
        step.schedule_check(now + POP_REMEMBERED + 1)
    _check_at(step, *_due_of(popper, step.policy)[:2])
    if client_id in step.state.unsettled:
        step.clients_to_judge[client_id] = None


def _popper(pops: Pops, client_id: str | None, now: int) -> Popper | None:
    """Return what is known of a member that pops, from now on if it is new; None for too many."""
    if client_id is None:
        return None
    popper = pops.poppers.get(client_id)
    if popper is None and len(pops.poppers) < CLIENTS_MAX:
        popper = pops.poppers[client_id] = Popper(now)
    return popper


def _note_refused(step: GroupStep, popper: Popper, event: PopMessage) -> None:
    popper.refused_since = popper.refused_since or event.first_time
    popper.refused_at, popper.refused_code = event.last_time, event.code or 0
    _check_at(step, popper.refused_since + step.policy.pop_refused_after + 1)


def _note_finished(step: GroupStep, pops: Pops, client_id: str | None) -> None:
    """Note that a member has acknowledged or refused messages."""
    popper = _popper(pops, client_id, step.now)
    if popper is not None and client_id is not None:
        popper.finished_at = step.now
        popper.pops.counts.clear()  # those before it had been answered
        if client_id in step.state.unsettled:
            step.clients_to_judge[client_id] = None


def _note_rejected(step: GroupStep, pops: Pops, event: ChangeMessageInvisibletime) -> None:
    """Note a refusal for a minute or longer: the message has been delivered, and refused, several times."""
    if event.changed_ms >= REJECTED_FROM and event.topic.startswith(RETRY_TOPIC_PREFIX) and not event.order:
        pops.rejected.add(step.now, 1)
        pops.rejected_at = step.now
        pops.returned_topic = popped_queues.popped_topic(event.group, event.topic)
        step.changed("RETURNED")


def _note_both(step: GroupStep, modes: RequestModes) -> None:
    """Note that a topic is popped and pulled at once, for as long as both are seen."""
    if min(modes.popped_at, modes.pulled_at) >= step.now - MODE_SEEN:
        modes.both_since = modes.both_since or step.now
        _check_at(step, modes.both_since + step.policy.request_mode_mixed_after + 1)


def _note_proxied(step: GroupStep, pops: Pops, event: ProxyHeartBeat) -> None:
    """Note a heartbeat of a proxy's client that the proxy copies to others, or its end."""
    if event.code not in popped.DONE:
        return
    former = pops.proxied.get(event.client_id)
    if not event.registers:
        if former is not None:
            proxied.drop_beating(step, pops, event.client_id)
        return
    if former is None and len(pops.proxied) >= CLIENTS_MAX:
        return
    within = step.policy.proxy_client_silent_after
    since = former.since if former is not None and step.now - former.last <= within else step.now
    pops.proxied[event.client_id] = ProxiedClient(
        event.proxy, event.language, event.version, step.now, event.consume_type == PUSH, since
    )
    pops.proxied_left_at = 0
    step.clients_to_judge |= dict.fromkeys(pops.proxies)
    step.schedule_check(step.now + step.policy.proxy_client_silent_after + 1)
    if event.client_id in step.state.unsettled:
        step.clients_to_judge[event.client_id] = None
    if former is None:
        step.changed("REPORT")


def _drop_targets(popper: Popper, now: int) -> bool:
    """Forget what a member no longer pops; return whether there was anything."""
    known = len(popper.targets)
    popper.targets = {target: at for target, at in popper.targets.items() if now - at <= POP_REMEMBERED}
    return len(popper.targets) < known


def _follow(step: GroupStep) -> None:
    """Apply that other topics are popped than before: their queues have no owners, those of the others do."""
    step.changed("POPPED")
    expect(step)
    step.queues_to_judge |= dict.fromkeys(step.state.queues)


def _judge_queue(step: GroupStep, pops: Pops, mq: MessageQueue | None) -> None:
    queue = pops.queues.queues.get(mq) if mq is not None else None
    if queue is None or mq is None:
        return
    _check_at(step, *(one.returned_at + 1 for one in queue.unacked), held_since(queue) + step.policy.pop_held_after + 1)
    if step.is_unsettled(mq):
        step.queues_to_judge[mq] = None


def _give_back(step: GroupStep, pops: Pops, now: int) -> None:
    """Count the messages that were not acknowledged in time."""
    for mq, queue in pops.queues.queues.items():
        if count := popped.give_back(queue, now):
            pops.expired.add(now, count)
            pops.expired_at = now
            step.changed("RETURNED")
            pops.returned_topic = popped_queues.popped_topic(step.state.group, mq.topic)
