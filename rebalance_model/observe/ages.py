"""How old the stamps of a queue's owner are, at least.

While a client goes on answering, its ages are those of its last answer: they do not grow between answers. Of a client
that is silent (two questions in a row unanswered, though its broker answers) nothing is known since its last answer:
it may have renewed and pulled until it was first asked in vain, so its ages are counted from then, by the collector's
clock. (detection.md carries the last ages forward; in the capture of the demo a client that renewed its locks between
its last answer and its freeze was called expired for the broker 20 s too early by that.)
"""

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.process_queue_view import ProcessQueueView
from rebalance_model.observe.state import ClientView, GroupState


class Ages(msgspec.Struct, frozen=True, gc=False):
    """Ages in milliseconds, each a lower bound."""

    client: ClientView
    queue: ProcessQueueView
    lock: int
    """Since the owner renewed its lock."""
    pull: int
    """Since the owner pulled."""
    consume: int
    """Since the owner's listener was given a message or returned."""

    @classmethod
    def of(cls, state: GroupState, mq: MessageQueue, now: int) -> "Ages | None":
        """The ages for the queue's believed owner; None where nobody is, or its answers do not hold the queue."""
        known = state.queues.get(mq)
        client = state.clients.get(known.owner) if known is not None and known.owner is not None else None
        queue = client.queues.get(mq) if client is not None else None
        if client is None or queue is None:
            return None
        if client.silent:
            silence = max(0, now - client.unanswered_since)
            return cls(client, queue, silence, silence, silence)
        client_now, asked = client.client_now, client.asked_at_answer
        return cls(
            client,
            queue,
            queue.lock.age(client_now, asked),
            queue.pull.age(client_now, asked),
            queue.consume.age(client_now, asked),
        )
