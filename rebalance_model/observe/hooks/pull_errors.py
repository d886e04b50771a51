"""Record the pulls that a broker answers with an error, for as long as it serves none of the queue.

PullMessageProcessor.processRequest refuses a pull before it reads any message: with NO_PERMISSION where the broker, the
group (consumeEnable) or the topic is not readable, with TOPIC_NOT_EXIST, with SUBSCRIPTION_GROUP_NOT_EXIST, and with
SUBSCRIPTION_NOT_EXIST or SUBSCRIPTION_NOT_LATEST where its subscription table differs from the client's. The client
pulls again after pullTimeDelayMillsWhenException, for ever, and reports a fresh pull each time.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import PullMessage
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.state import PullError
from rebalance_model.observe.step import GroupStep

NO_PERMISSION, TOPIC_NOT_EXIST, OFFSET_MOVED = 16, 17, 21
SUBSCRIPTION_NOT_EXIST, SUBSCRIPTION_NOT_LATEST, GROUP_NOT_EXIST = 24, 25, 26
UNREGISTERED = (SUBSCRIPTION_NOT_EXIST, SUBSCRIPTION_NOT_LATEST, GROUP_NOT_EXIST)
"""Response codes of a pull whose client, or its subscription, no heartbeat has registered with the broker."""
_SERVED = (None, 0, 19, 20)
"""Response codes of a pull that was served: later, at once, PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY."""


def note(step: GroupStep, mq: MessageQueue, client_id: str | None, event: PullMessage) -> None:
    """Record the answers to pulls of any client; those of one second are reported together, for each code."""
    hook_view = step.hook_view(mq)
    error = hook_view.pull_error
    if event.code in (OFFSET_MOVED, TOPIC_NOT_EXIST):
        hook_view.voided_at = event.last_time
    if event.code in _SERVED:
        if error is not None and event.last_time > error.last:
            hook_view.pull_error = None
            if client_id == error.client_id:  # perhaps no member yet: its heartbeat may come after its pull
                hook_view.pull_time = max(hook_view.pull_time, event.last_time)
            step.queues_to_judge[mq] = None
        return
    if error is None or event.first_time > error.over_at:
        error = hook_view.pull_error = PullError(event.code or 0, event.first_time, event.first_time, 0, client_id)
        step.queues_to_judge[mq] = None
    elif error.code != event.code:
        step.queues_to_judge[mq] = None
    error.code, error.last, error.client_id = event.code or 0, max(error.last, event.last_time), client_id
    error.count, error.channel = error.count + event.count, event.channel


def error_of(step: GroupStep, q: QueueFacts) -> PullError | None:
    """Return the errors with which the queue's pulls are being answered; None: there are none, or no pulls."""
    error = q.calls.pull_error if q.calls is not None else None
    return error if error is not None and step.now <= error.over_at else None


def is_outdated(step: GroupStep, broker: str, error: PullError) -> bool:
    """Return whether a heartbeat has registered the client since its last pull: its next pull may be served."""
    if error.code not in UNREGISTERED:
        return False
    of = step.facts.calls_at(broker).heartbeats
    found = [of[error.client_id]] if error.client_id in of else of.values() if error.client_id is None else ()
    return any(one.last > error.last for one in found)


def unregistered_for(step: GroupStep, broker: str, channel: str) -> int:
    """Return for how long a broker refused pulls on a channel because no heartbeat had registered its client; ms."""
    views = (queue.hook_view for mq, queue in step.state.queues.items() if mq.broker == broker)
    errors = (view.pull_error for view in views if view is not None and view.pull_error is not None)
    found = [error.last - error.since for error in errors if (error.channel, error.code) in _unregistered_on(channel)]
    return max(found, default=0)


def _unregistered_on(channel: str) -> tuple[tuple[str, int], ...]:
    return tuple((channel, code) for code in UNREGISTERED)


def is_refused(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the broker has refused every pull of the queue for `pull_refused_after`."""
    error = error_of(step, q)
    if error is None or error.code == OFFSET_MOVED:
        return False
    return step.now - error.since > step.policy.pull_refused_after


def is_illegal(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the queue's reader asks for an offset that its log does not have (OFFSET_REGRESSION names it)."""
    error = error_of(step, q)
    return error is not None and error.code == OFFSET_MOVED
