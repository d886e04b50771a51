"""The threads of a simulated lite-pull consumer: one for each assigned queue, and the application's.

The application polls, works on what it gets, and polls again. What it refuses it tries again a second later. More than
pullThreadNums (20) queues would wait for each other's thread in a real consumer; here each has its own.
"""

from collections.abc import Set as AbstractSet
from functools import partial

from rebalance_model.entities import MessageQueue
from simulation.listener import Behaviour
from simulation.process import Process, Promise
from simulation.pull_hold import HeldPull, PullHold
from simulation.remote_brokers import RemoteBrokers
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.host import BrokerError
from simulation.rocketmq.client.lite_pull import POLL_TIMEOUT, AssignedQueue, LitePull
from simulation.rocketmq.client.pull_flow_control import Pull
from simulation.scheduler import MS, SECOND


class _Pulled:
    """A queue that is always simulated (`pull_hold.RestingQueue`)."""

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue

    def rest(self, pulls: PullHold, pull: HeldPull) -> bool:
        """Let the pull be simulated."""
        del pulls, pull
        return False

    def catch_up(self) -> None:
        """Do nothing: it is at the present."""

    def wake(self) -> None:
        """Do nothing: it does not rest."""


class Reader:
    """One lite-pull consumer in its process."""

    def __init__(
        self, process: Process, consumer: Consumer, brokers: RemoteBrokers, behaviour: Behaviour, commit_interval: int
    ) -> None:
        self.lite_pull = LitePull(consumer, commit_interval)
        self._process = process
        self._consumer = consumer
        self._brokers = brokers
        self._behaviour = behaviour
        self._arrived: Promise[None] = Promise()

    def message_queue_changed(
        self, topic: str, mq_all: AbstractSet[MessageQueue], mq_divided: AbstractSet[MessageQueue]
    ) -> None:
        """Take over the share that a rebalance has found, and begin to pull its new queues."""
        for queue in self.lite_pull.message_queue_changed(topic, mq_all, mq_divided):
            self._process.spawn(self._pull(queue))

    async def run(self) -> None:
        """Run the application's thread."""
        while True:
            request = self.lite_pull.poll()
            if request is None:
                self._arrived = Promise()
                self._process.after(POLL_TIMEOUT * MS, partial(self._arrived.resolve, None))
                await self._arrived
                continue
            while not await self._behaviour.accepts(request.messages, request.queue.message_queue):
                await self._process.sleep_until(self._process.scheduler.now + SECOND)

    async def _pull(self, queue: AssignedQueue) -> None:
        """Run the pull task of a queue until that is no longer assigned (PullTaskImpl)."""
        pulled = _Pulled(queue.message_queue)
        while (pull := await self.lite_pull.next_pull(queue)) is not None:
            delay = pull if isinstance(pull, int) else await self._send(pulled, pull, queue)
            if delay:
                await self._process.sleep_until(self._process.scheduler.now + delay * MS)

    async def _send(self, pulled: _Pulled, pull: Pull, queue: AssignedQueue) -> int:
        """Pull a queue; return after how many milliseconds its next pull is due."""
        try:
            result = await self._brokers.pull(pulled, pull)
        except BrokerError:
            return self._consumer.config.pull_time_delay_when_exception
        if self.lite_pull.on_pull_result(queue, result):
            self._arrived.resolve(None)
        return 0
