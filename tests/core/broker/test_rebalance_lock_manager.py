"""Holders of the lock of an ordered queue."""

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.rebalance_lock_manager import RebalanceLockManager
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.broker.lock_in_strict_mode import granted_by, quorum

Q0, Q1 = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)


def test_a_queue_is_one_clients_until_it_gives_it_back():
    locks = RebalanceLockManager()
    assert locks.try_lock_batch("G", [Q0, Q1, Q0], "c0", 0) == (Q0, Q1)
    assert locks.try_lock_batch("G", [Q0, Q1], "c1", 0) == ()
    locks.unlock_batch("G", [Q0], "c1")
    assert not locks.try_lock("G", Q0, "c1", 0)
    locks.unlock_batch("G", [Q0], "c0")
    assert locks.try_lock_batch("G", [Q0, Q1], "c1", 0) == (Q0,)


def test_groups_never_get_in_each_others_way():
    locks = RebalanceLockManager()
    assert locks.try_lock("G", Q0, "c0", 0)
    assert locks.try_lock("H", Q0, "c1", 0)


def test_a_lock_holds_sixty_seconds_to_the_millisecond():
    locks = RebalanceLockManager()
    locks.try_lock("G", Q0, "c0", 0)
    assert not locks.try_lock("G", Q0, "c1", 60_000)
    assert not locks.is_lock_all_expired("G", 60_000)
    assert locks.is_lock_all_expired("G", 60_001)
    assert locks.try_lock("G", Q0, "c1", 60_001)
    assert not locks.try_lock("G", Q0, "c0", 60_002)


def test_asking_again_renews_and_being_refused_does_not():
    locks = RebalanceLockManager()
    locks.try_lock("G", Q0, "c0", 0)
    assert locks.try_lock("G", Q0, "c0", 50_000)
    assert not locks.try_lock("G", Q0, "c1", 110_000)
    assert locks.try_lock("G", Q0, "c1", 110_001)


def test_an_expired_lock_stays_its_owners_until_another_takes_it():
    locks = RebalanceLockManager()
    locks.try_lock("G", Q0, "c0", 0)
    assert locks.try_lock("G", Q0, "c0", 500_000)
    assert not locks.try_lock("G", Q0, "c1", 560_000)


def test_an_expired_lock_can_be_given_back():
    locks = RebalanceLockManager()
    locks.try_lock("G", Q0, "c0", 0)
    locks.unlock_batch("G", [Q0], "c0")
    assert locks.mq_lock_table == {"G": {}}
    assert locks.is_lock_all_expired("G", 0)


def test_unlocking_a_queue_that_is_not_locked_changes_nothing():
    locks = RebalanceLockManager()
    locks.unlock_batch("G", [Q0], "c0")
    assert locks == RebalanceLockManager()
    assert locks.is_lock_all_expired("unknown", 0)


def test_the_table_survives_messagepack():
    locks = RebalanceLockManager()
    locks.try_lock_batch("G", [Q0, Q1], "c0", 5)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(locks), type=RebalanceLockManager) == locks


def test_strict_mode_needs_a_majority_of_the_replicas():
    strict = BrokerConfig(lock_in_strict_mode=True, total_replicas=3)
    several = [msgspec.structs.replace(strict, total_replicas=replicas) for replicas in range(1, 6)]
    assert [quorum(config, only_this_broker=False) for config in several] == [1, 2, 2, 3, 3]
    assert quorum(strict, only_this_broker=True) == 1
    assert quorum(BrokerConfig(total_replicas=3), only_this_broker=False) == 1
    assert granted_by(2, [Q0, Q1], [[Q1], []]) == (Q1,)
    assert granted_by(1, [Q0, Q1], []) == (Q0, Q1)


class Locks(RuleBasedStateMachine):
    """Against the list of everything that was asked: the last one who was let in holds the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.locks = RebalanceLockManager()
        self.now = 0
        self.history: list[tuple[str, MessageQueue, str, int]] = []

    @rule(milliseconds=st.sampled_from([1, 29_999, 30_000, 30_001, 60_000, 60_001]))
    def time_passes(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule(group=st.sampled_from("GH"), mqs=st.sets(st.sampled_from([Q0, Q1])), client=st.sampled_from(["c0", "c1"]))
    def ask(self, group: str, mqs: set[MessageQueue], client: str) -> None:
        expected = {mq for mq in mqs if self._holder(group, mq) in (None, client)}
        assert set(self.locks.try_lock_batch(group, mqs, client, self.now)) == expected
        self.history += [(group, mq, client, self.now) for mq in expected]

    @rule(group=st.sampled_from("GH"), mqs=st.sets(st.sampled_from([Q0, Q1])), client=st.sampled_from(["c0", "c1"]))
    def give_back(self, group: str, mqs: set[MessageQueue], client: str) -> None:
        self.locks.unlock_batch(group, mqs, client)
        last = {(g, mq): c for g, mq, c, _ in self.history}
        gone = {(group, mq) for mq in mqs if last.get((group, mq)) == client}
        self.history = [entry for entry in self.history if entry[:2] not in gone]

    @invariant()
    def a_group_without_locks_is_free(self) -> None:
        for group in "GH":
            held = any(self._holder(group, mq) for mq in (Q0, Q1))
            assert self.locks.is_lock_all_expired(group, self.now) is not held

    def _holder(self, group: str, mq: MessageQueue) -> str | None:
        asked = [(client, time) for g, queue, client, time in self.history if (g, queue) == (group, mq)]
        return asked[-1][0] if asked and self.now - asked[-1][1] <= 60_000 else None


TestLocks = Locks.TestCase
