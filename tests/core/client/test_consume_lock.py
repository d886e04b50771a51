"""Readers exclude the writer and it excludes everybody."""

from simulation.rocketmq.client.consume_lock import ConsumeLock


def test_readers_share_and_a_writer_waits_for_all_of_them():
    lock = ConsumeLock()
    assert lock.try_read()
    assert lock.try_read()
    lock.release_read()
    assert not lock.try_write()
    lock.release_read()
    assert lock.try_write()


def test_a_writer_excludes_readers_and_writers():
    lock = ConsumeLock()
    assert lock.try_write()
    assert not lock.try_read()
    assert not lock.try_write()
    lock.release_write()
    assert lock.try_read()
