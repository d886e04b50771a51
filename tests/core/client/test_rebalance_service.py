"""Runs of the rebalance thread: 20 s, 1 s, wakeups."""

from rebalance_model.dialect import RELEASE_4_9
from simulation.rocketmq.client.rebalance_service import RebalanceService, do_rebalance
from tests.core.client.harness import client, run


def test_the_first_run_is_20_s_after_the_start():
    service = RebalanceService(1_000)
    assert service.due == 21_000
    assert service.wake(21_000)


def test_wakeups_within_a_second_are_one_run_at_its_end():
    service = RebalanceService(-5_000)
    service.done(0, balanced=True)
    assert service.due == 20_000
    for wakeup in (100, 200):
        service.wakeup()
        assert service.due == 0
        assert not service.wake(wakeup)
        assert service.due == 1_000
    assert service.wake(1_000)


def test_a_wakeup_a_second_later_runs_at_once():
    service = RebalanceService(0)
    service.wakeup()
    assert not service.wake(999)
    assert service.due == 1_000
    service.wakeup()
    assert service.wake(1_000)


def test_a_wakeup_during_a_run_is_not_lost():
    service = RebalanceService(0)
    assert service.wake(20_000)
    service.wakeup()
    service.done(20_500, balanced=True)
    assert service.due == 0
    assert not service.wake(20_500)
    assert service.due == 21_500


def test_without_balance_it_comes_back_after_a_second():
    service = RebalanceService(0)
    service.done(20_000, balanced=False)
    assert service.due == 21_000


def test_release_4_9_runs_at_every_wakeup_and_does_not_come_back():
    service = RebalanceService(0, RELEASE_4_9)
    service.wakeup()
    assert service.wake(1)
    service.done(1, balanced=False)
    assert service.due == 20_001


def test_all_groups_are_rebalanced_and_one_unbalanced_is_enough():
    first, second = client(), client()
    first.pause(True)
    for each in (first, second):
        each.subscribe("T")
        each.route("T", [("T", "a", 0)])
    assert not run(do_rebalance([first.consumer, second.consumer]))
    assert not first.consumer.process_queue_table
    assert len(second.consumer.process_queue_table) == 1
    first.pause(False)
    assert run(do_rebalance([first.consumer, second.consumer]))
