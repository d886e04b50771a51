"""A queue on which only regular messages happen: computed on demand instead of simulated.

A healthy consumer's pull waits at the broker, and nothing is cached. A message arrives, is sent to the consumer,
consumed and counted, while the next pull goes up and waits again; or none arrives, and every 15 to 20 s a pull is
answered without one. As long as each message is consumed before the next one arrives, each of these rounds is known in
advance to the microsecond. So such a queue rests: no event is scheduled for it, and `catch_up` brings the real objects
(process queue, pull request, offset stores) to where the rounds would have brought them. If their state is read in the
middle of a round, the real parts simulate that round in the past; an event that could change the rounds wakes the queue
first.

A cluster with `World.every_step` set lets no queue rest and yields the same bytes, which a test checks.
"""

from dataclasses import replace
from typing import Protocol

from rebalance_model.entities import INT64_MAX, MessageQueue
from simulation.listener import Behaviour
from simulation.message_log import SteadyLog
from simulation.process import Process, ProcessState
from simulation.pull_hold import HeldPull, PullHold
from simulation.rocketmq.client.cached_messages import CachingProcessQueue
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.pull_request import PullRequest
from simulation.scheduler import MS, SECOND, Clock

NEVER = INT64_MAX
OFTEN = 15 * SECOND
"""Messages that come at least this often leave no time for a pull without one."""


class PullingClient(Protocol):
    """The parts of a client that its queues at rest read, and where they register themselves."""

    process: Process
    clock: Clock
    consumer: Consumer
    behaviour: Behaviour
    every_step: bool
    waiting: dict[MessageQueue, "QuietQueue"]
    resting: dict[MessageQueue, "QuietQueue"]
    left_out: tuple[int, int]
    """When the last two commits of the timer were left to the queues at rest; microseconds of true time."""

    def now(self) -> int:
        """Return the client's clock; epoch milliseconds."""


class QuietQueue:
    """The rounds of one pull request while its queue rests."""

    _pulls: PullHold
    _pull: HeldPull
    """The pull that waits at the broker, or did so last."""

    def __init__(self, client: PullingClient, request: PullRequest) -> None:
        self._client = client
        self._request = request
        self._scheduler = client.process.scheduler
        self._next = NEVER
        self.queue = request.message_queue
        self._resting = False

    def rest(self, pulls: PullHold, pull: HeldPull) -> bool:
        """Begin to rest with a pull that waits; return False if this queue must be simulated."""
        self._pulls, self._pull = pulls, pull
        self._client.waiting[self.queue] = self
        self._log = pulls.log(self.queue)
        self._latency = pull.channel.latency
        self._consumed_in = self._latency + self._client.behaviour.work
        self._round = max(2 * self._latency, self._consumed_in)
        self._often = isinstance(self._log, SteadyLog) and self._log.period is not None and self._log.period <= OFTEN
        self._resting = self._may_rest()
        self._persisted, self._done, self._counted = self._scheduler.now, 0, pull.offset
        if self._resting:
            pulls.resting[pull.group, self.queue] = self._client.resting[self.queue] = self
            self._wait(pull.since)
        return self._resting

    def settle(self) -> None:
        """Rest after a message was consumed, if the next pull waits already."""
        waiting = self._pull
        if not waiting.ended and not self._resting:
            waiting.ended = self.rest(self._pulls, replace(waiting))
            if not waiting.ended:
                self._pull = waiting

    def catch_up(self) -> None:
        """Bring all objects to the present."""
        now = self._scheduler.now
        moved = False
        while self._next <= now and self._resting:
            if self._ends >= now:  # the real parts order the events of one microsecond
                self._store_commits(moved=moved)
                self._stop(self._next)
                self._pulls.play(self._pull, self._next)
            elif self._next == self._arrives:
                self._take_messages(now)
                moved = True
            else:
                self._pull_again()
                moved = True
        if self._resting and (moved or self._persisted < self._client.left_out[-1]):
            self._store_commits(moved=moved)

    def wake(self) -> None:
        """Simulate the queue from now on."""
        self.catch_up()
        if self._resting:
            self._stop(NEVER)
            self._pulls.simulate(self._pull)

    def _may_rest(self) -> bool:
        """Return whether queue and client are idle and healthy, and messages are consumed before the next arrives."""
        client, process_queue = self._client, self._request.process_queue
        consumer, now = client.consumer, client.now()
        return (
            not client.every_step
            and self._pulls.may_rest(self._pull, self.queue)
            and self._pull.channel.open_at_client
            and client.process.state is ProcessState.RUNNING
            and client.behaviour.well
            and consumer.running
            and consumer.config.clustering
            and consumer.config.pull_interval == 0
            and process_queue.msg_count == 0
            and not process_queue.dropped
            and consumer.offset_store.clone_offset_table(None).get(self.queue) == self._pull.offset
            and (not consumer.config.orderly or self._keeps_order(process_queue, now))
            and self._in_time()
        )

    def _keeps_order(self, process_queue: CachingProcessQueue, now: int) -> bool:
        return process_queue.trusts_lock(now) and not process_queue.consuming

    def _in_time(self) -> bool:
        if isinstance(self._log, SteadyLog):
            period = self._log.period
            return period is None or self._round + 2 * self._latency <= period
        return self._log.arrival(self._pull.offset) is None

    def _stop(self, arrival: int) -> None:
        """End the rest; schedule commits under way. The message found at `found` may have been consumed already."""
        self._resting = False
        del self._pulls.resting[self._pull.group, self.queue], self._client.resting[self.queue]
        for sent in self._client.left_out:
            if sent > self._persisted:
                counted = self._counted_at(sent) + (sent > arrival + self._consumed_in)
                self._pulls.commit_later(sent, self._pull, counted)

    def _store_commits(self, *, moved: bool) -> None:
        """Store at the broker the commit that it received last, from a pull or from the timer.

        The client leaves its timer's commits to its queues at rest (`Client.left_out`).
        """
        committed = self._counted if moved else 0  # a pull carries no 0
        for sent in self._client.left_out:
            arrives = sent + self._latency
            if self._persisted < sent and self._scheduler.has_run(arrives, sent):
                self._persisted = sent
                if arrives > self._pull.since or self._counted == 0:
                    self._pulls.commit(self._pull, self._counted_at(sent))
                    committed = 0
        if committed:
            self._pulls.commit(self._pull, committed)
        if moved:
            self._pulls.note(self._pull)

    def _counted_at(self, sent: int) -> int:
        """Return the client's offset when it sent a commit, if that was after the last message but one.

        In the microsecond in which a message is consumed, the timer comes first: it was set before the message came.
        """
        return self._pull.offset - (sent <= self._done)

    def _wait(self, since: int) -> None:
        """Record a pull that arrives and waits; compute when it is answered."""
        pull = self._pull
        pull.since = pull.channel.last_io = since
        time_up = self._pulls.time_up(pull)
        arrival = self._log.arrival(pull.offset)
        self._arrives = NEVER if arrival is None else max(arrival, since)
        if self._arrives <= time_up:
            self._next, self._ends = self._arrives, self._arrives + self._round
        else:
            self._next, self._ends = time_up, time_up + 2 * self._latency

    def _take_messages(self, now: int) -> None:
        """Apply all rounds with a message that have ended; with rare messages, pulls without one come between."""
        client, process_queue = self._client, self._request.process_queue
        first = last = self._pull.offset
        arrival = self._arrives
        if self._often:
            newest = self._log.max_offset(now - self._round - 1) - 1
            if newest > first:
                last, arrival = newest, self._log.arrival(newest) or 0
        self._done = done = arrival + self._consumed_in
        process_queue.queue_offset_max = last
        process_queue.msg_acc_cnt = 1
        process_queue.consuming = not client.consumer.config.orderly
        process_queue.last_consume_timestamp = client.clock.at(done)
        times = (self._arrives + self._consumed_in) // MS, done // MS
        client.behaviour.consumed(self.queue, range(first, last + 1), times)
        client.consumer.offset_store.update_offset(self.queue, last + 1, increase_only=False)
        self._next_pull(arrival, last + 1, last)  # it goes up while the message is consumed, and so does not count it

    def _pull_again(self) -> None:
        """Apply a round in which a pull was answered without a message."""
        self._done = 0
        self._next_pull(self._next, self._pull.offset, self._pull.offset)

    def _next_pull(self, answered: int, offset: int, counted: int) -> None:
        self._request.process_queue.last_pull_timestamp = self._client.clock.at(answered + self._latency)
        self._request.next_offset = self._pull.offset = offset
        self._counted = counted
        self._wait(answered + 2 * self._latency)
