"""The lease: one run at a time, on one machine by a lock, on several by the beats in a file of their storage."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from checkpoints import lease
from checkpoints.lease import Lease, LeaseHeldError, LeaseLostError


@pytest.fixture
def machine(monkeypatch):
    """Let the runs that start next be on another machine, whose locks of files do not exclude those elsewhere."""

    def machine(name):
        monkeypatch.setattr(lease, "LOCK", f".lock-{name}")
        monkeypatch.setattr(lease, "_place", lambda _: name)

    for name, seconds in {"BEAT_SECONDS": 0.1, "EXPIRY_SECONDS": 4.0, "_RENEWAL_SECONDS_MAX": 1.0}.items():
        monkeypatch.setattr(lease, name, seconds)
    monkeypatch.setattr(lease, "_LOOK_SECONDS", 0.05)
    return machine


def silence(run_lease, monkeypatch):
    """Stop the beats of a run, as if its machine had stopped; returns what lets them go on."""
    wait, stands, goes_on = run_lease._closing.wait, threading.Event(), threading.Event()

    def stopped(seconds):
        stands.set()
        goes_on.wait(120)
        return wait(seconds)

    monkeypatch.setattr(run_lease._closing, "wait", stopped)
    assert stands.wait(120)
    return goes_on.set


def hang(run_lease, monkeypatch):
    """Let the storage of a run answer no beat; returns when one waits, with what lets it go on."""
    write, hangs, goes_on = run_lease._write, threading.Event(), threading.Event()

    def hanging(**_):
        hangs.set()
        goes_on.wait(120)
        write()

    monkeypatch.setattr(run_lease, "_write", hanging)
    assert hangs.wait(120)
    return goes_on.set


def check_for(seconds, run_lease):
    """Check a lease until it is lost, as the job does all the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        run_lease.check()
        time.sleep(0.02)


def test_a_released_lease_is_taken_at_once(machine, tmp_path):
    for name in ("a", "b", "a"):
        machine(name)
        began = time.monotonic()
        with Lease.acquire(tmp_path) as held:
            assert not held._lost
        assert time.monotonic() - began < lease.EXPIRY_SECONDS
    assert [file.name for file in (tmp_path / "lease").iterdir()] == ["0000000003.json"]


def test_a_run_on_the_same_machine_is_refused_by_the_lock(tmp_path):
    with Lease.acquire(tmp_path), pytest.raises(LeaseHeldError, match=r"process \d+\): stop it, start this one with"):
        Lease.acquire(tmp_path)


def test_a_run_on_another_machine_is_refused_while_the_first_beats(machine, tmp_path):
    machine("a")
    with Lease.acquire(tmp_path) as run_lease:
        machine("b")
        with pytest.raises(LeaseHeldError, match="Another run works on"):
            Lease.acquire(tmp_path)
        assert not run_lease._lost


def test_a_standby_waits_while_the_first_beats_and_takes_over_after_it(machine, tmp_path):
    machine("a")
    first = Lease.acquire(tmp_path)
    machine("b")
    waits, began = [], time.monotonic()

    def on_wait(holder):
        waits.append(holder)
        if time.monotonic() - began > 1.5 * lease.EXPIRY_SECONDS:
            first.close()

    with Lease.acquire(tmp_path, on_wait) as second:
        assert time.monotonic() - began > 1.5 * lease.EXPIRY_SECONDS
        assert not second._lost
    assert "process" in waits[0]


def test_a_run_that_shows_no_beat_is_replaced_and_finds_that_out(machine, tmp_path, monkeypatch):
    machine("a")
    first = Lease.acquire(tmp_path)
    go_on = silence(first, monkeypatch)
    machine("b")
    began = time.monotonic()
    with Lease.acquire(tmp_path) as second:
        assert time.monotonic() - began > lease.EXPIRY_SECONDS
        first.check()
        go_on()
        first._beats.join(120)
        with pytest.raises(LeaseLostError, match=r"Another run \(.*\) has taken over"):
            first.check()
        first.close()
        time.sleep(3 * lease.BEAT_SECONDS)
        second.check()


def test_a_holder_can_look_at_once_whether_it_was_replaced(machine, tmp_path, monkeypatch):
    machine("a")
    with Lease.acquire(tmp_path) as first:
        assert first.confirm()
        go_on = silence(first, monkeypatch)
        machine("b")
        with Lease.acquire(tmp_path, lambda _: None) as second:
            assert second.confirm()
            with pytest.raises(LeaseLostError, match="has taken over"):
                first.confirm()
        go_on()


def test_a_run_that_cant_write_its_beat_ends_before_another_takes_over(machine, tmp_path, monkeypatch):
    machine("a")
    run_lease = Lease.acquire(tmp_path)

    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_lease, "_write", full)
    run_lease._beats.join(120)
    with pytest.raises(LeaseLostError, match=r"can't be renewed \(No space left on device\)"):
        run_lease.check()
    run_lease.close()


def test_a_run_whose_storage_hangs_ends_before_another_takes_over(machine, tmp_path, monkeypatch):
    """And its end does not wait for the storage."""
    machine("a")
    run_lease = Lease.acquire(tmp_path)
    go_on = hang(run_lease, monkeypatch)
    with pytest.raises(LeaseLostError, match=r"can't be renewed \(the storage does not answer\)"):
        check_for(lease.EXPIRY_SECONDS, run_lease)
    run_lease.close()
    assert run_lease._beats.is_alive()
    go_on()
    run_lease._beats.join(120)


def test_a_run_that_ends_while_its_storage_hangs_leaves_its_lease(machine, tmp_path, monkeypatch):
    machine("a")
    run_lease = Lease.acquire(tmp_path)
    go_on = hang(run_lease, monkeypatch)
    run_lease.close()
    assert not lease._read(tmp_path / "lease", 1).is_released
    go_on()
    run_lease._beats.join(120)
    assert not run_lease._lost


def test_a_run_that_was_stopped_within_a_beat_goes_on(machine, tmp_path, monkeypatch):
    """The beat is long overdue when it continues, but the storage answers."""
    machine("a")
    with Lease.acquire(tmp_path) as run_lease:
        go_on = hang(run_lease, monkeypatch)
        monkeypatch.setattr(lease, "_RENEWAL_SECONDS_MAX", 0.0)
        monkeypatch.setattr(lease, "BEAT_SECONDS", 120.0)
        threading.Timer(0.1, go_on).start()
        run_lease.check()
        assert not run_lease._lost


def test_a_storage_that_cant_be_read_confirms_nothing(tmp_path):
    with Lease.acquire(tmp_path) as run_lease:
        shutil.rmtree(tmp_path / "lease")
        (tmp_path / "lease").symlink_to(tmp_path / "lease")
        assert not run_lease.confirm()


def test_only_one_of_many_creates_an_epoch(machine, tmp_path):
    for epoch in range(1, 30):
        with ThreadPoolExecutor(8) as pool:
            claims = [pool.submit(lease._create, tmp_path, epoch, lease._Lease(f"{number}", "")) for number in range(8)]
        assert sum(claim.result() for claim in claims) == 1
        assert [file.name for file in tmp_path.iterdir()] == [f"{epoch:010d}.json"]


def test_an_epoch_below_a_later_one_is_no_claim(machine, tmp_path):
    assert lease._create(tmp_path, 7, lease._Lease("a", ""))
    assert not lease._create(tmp_path, 6, lease._Lease("b", ""))
    assert lease._epochs(tmp_path) == [7]
