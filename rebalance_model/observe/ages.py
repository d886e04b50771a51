"""How old the stamps of a queue's owner are.

While a client goes on answering, its ages are those of its last answer: they do not grow between answers. Of a client
that is silent (two questions in a row unanswered, though its broker answers) they are carried forward by the
collector's clock.
"""

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.process_queue_view import ProcessQueueView
from rebalance_model.observe.state import ClientView, GroupState


class Ages(msgspec.Struct, frozen=True, gc=False):
    """Ages in milliseconds, at the last answer and now."""

    client: ClientView
    queue: ProcessQueueView
    lock_at_answer: int
    pull_at_answer: int
    consume_at_answer: int
    since_answer: int
    """0 while the client is not silent."""

    @classmethod
    def of(cls, state: GroupState, mq: MessageQueue, now: int) -> "Ages | None":
        """The ages for the queue's believed owner; None where nobody is, or its answers do not hold the queue."""
        known = state.queues.get(mq)
        client = state.clients.get(known.owner) if known is not None and known.owner is not None else None
        queue = client.queues.get(mq) if client is not None else None
        if client is None or queue is None:
            return None
        client_now, asked = client.client_now, client.asked_at_answer
        return cls(
            client,
            queue,
            queue.lock.age(client_now, asked),
            queue.pull.age(client_now, asked),
            queue.consume.age(client_now, asked),
            max(0, now - client.answered) if client.silent else 0,
        )

    @property
    def lock(self) -> int:
        """Since the owner renewed its lock."""
        return self.lock_at_answer + self.since_answer

    @property
    def pull(self) -> int:
        """Since the owner pulled."""
        return self.pull_at_answer + self.since_answer

    @property
    def consume(self) -> int:
        """Since the owner's listener was given a message or returned."""
        return self.consume_at_answer + self.since_answer
