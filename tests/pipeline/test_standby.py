"""Two jobs on one root: one waits and takes over; if both believe that they may write, still no row is doubled.

The short form is `live.test_whole_path`: there a standby takes over from a job that is killed within a batch.
"""

import random
import signal
import time
from collections import Counter

import pytest

from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.base.settings import load_settings
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from tests.support.plain import as_json, derived_rows, rows_of
from tests.support.standby import ELSEWHERE, Job, check_it_waits
from tests.support.tables import has_rows, read_rows
from tests.support.telemetry import telemetry
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.prove]

PARTITIONS = 2
SECONDS = 400
TAKEOVERS = 10
"""Of each seed; each proves by itself that no row is lost or doubled."""
TAKEOVER_SECONDS_MAX = 60
WITHOUT_LEASE = """
from contextlib import contextmanager
from checkpoints import generation, lease
from streaming.pipeline import job
class Nothing:
    @classmethod
    @contextmanager
    def acquire(cls, checkpoints, *_):
        checkpoints.mkdir(parents=True, exist_ok=True)
        yield Nothing()
    def check(self):
        pass
    def confirm(self):
        return False
job.Lease = generation.Lease = Nothing
from streaming.cli.main import main
main()
"""
FENCED = ("has found another run on the same checkpoints", "has taken over")


def job_of(root, name, *arguments, program=ELSEWHERE):
    """A job over the file log below a root."""
    given = {"RUNTIME__ROOT": root, "RUNTIME__JARS": load_settings().runtime.jars}
    given |= {"SOURCE__KIND": "files", "SOURCE__PARTITIONS": PARTITIONS, "SOURCE__FILES_PER_BATCH": 2}
    given |= {"JOB__TRIGGER_SECONDS": 0.2, "JOB__ARCHIVE_TRIGGER_SECONDS": 0.2}
    return Job(root / name, given, *arguments, program=program)


class Log:
    """The log, which grows by one part of the telemetry after the other."""

    def __init__(self, root, rounds, parts):
        self._root = root / "log"
        self._events = list(telemetry(6, rounds))
        self._size = -(-len(self._events) // parts)

    @property
    def parts(self):
        """Return how many parts are left."""
        return -(-len(self._events) // self._size)

    def grow(self):
        """Append the next part."""
        part, self._events = self._events[: self._size], self._events[self._size :]
        with FilePublisher(self._root, PARTITIONS, file_bytes_max=10**9, roll_seconds=1e9) as publisher:
            publish(publisher, part)


def take_over(log, first, second, how, pause):
    """Let a second job take over from the first; returns after how many seconds it has begun, and has ended a batch."""
    second.start()
    second.wait_for("standby: another run works on the same root", SECONDS)
    log.grow()
    time.sleep(pause)
    began = time.monotonic()
    first.signal(how)
    if how == signal.SIGTERM:  # its last batch may take all that is there
        assert first.ended(SECONDS) == 0, first.said_now()
    log.grow()
    second.wait_for("standby: taking over", SECONDS)
    taken = time.monotonic() - began
    second.wait_for("operator batch", SECONDS)
    worked = time.monotonic() - began
    if how == signal.SIGSTOP:
        first.signal(signal.SIGCONT)
        assert first.ended(SECONDS) == 1
        assert any(one in " ".join(first.said_now().split()) for one in FENCED), first.said_now()
    first.kill()
    assert "Traceback" not in first.said() + second.said()
    return taken, worked


def finish(root, log, job):
    """Let the job that runs process the rest of the log; return the number of rows, each of which is there once."""
    while log.parts:
        log.grow()
    expected = {table: [] for table in DERIVED} | derived_rows(root / "log", PARTITIONS, Policy())
    sizes = {table: len(rows) for table, rows in expected.items()}
    sizes["telemetry"] = sum(len(rows_of(root / "log", partition)) for partition in range(PARTITIONS))
    until(lambda: has_rows(root / "tables", sizes), SECONDS, job.said_now)
    assert job.interrupt() == 0
    assert {table: sorted(map(as_json, read_rows(root / "tables", table))) for table in DERIVED} == expected
    places = [(row["partition"], row["offset"]) for row in read_rows(root / "tables", "telemetry")]
    assert len(places) == len(set(places)) == sizes["telemetry"]
    return len(places)


def two_without_a_lease_double_nothing(root, log, parts):
    """Both run until one finds the other; what they leave has to be continued."""
    with job_of(root, "c", program=WITHOUT_LEASE) as c, job_of(root, "d", program=WITHOUT_LEASE) as d:
        c.start().wait_for("archive batch 0:", SECONDS)
        d.start().wait_for("processing the log", SECONDS)
        deadline = time.monotonic() + SECONDS
        while c.is_running and d.is_running:
            assert time.monotonic() < deadline
            if log.parts > parts:
                log.grow()
            time.sleep(2)
        for job in [job for job in (c, d) if not job.is_running]:
            assert job.ended() == 1
            assert FENCED[0] in " ".join(job.said().split()), job.said()
            assert "Traceback" not in job.said()


def test_jobs_on_one_root_take_over_from_each_other_and_double_nothing(tmp_path):
    """One root for all: two without a lease, then one that is stopped while it waits, one that hangs."""
    log = Log(tmp_path, rounds=80, parts=13)
    log.grow()
    two_without_a_lease_double_nothing(tmp_path, log, parts=5)
    with job_of(tmp_path, "a", "--standby") as a, job_of(tmp_path, "b", "--standby") as b:
        a.start().wait_for("processing the log", SECONDS)
        b.start().wait_for("standby: another run works on the same root", SECONDS)
        check_it_waits(b, a)
        b.signal(signal.SIGTERM)
        assert b.ended() == 0
        assert b.said().endswith("stopped\n")

        assert take_over(log, a, b, signal.SIGKILL, pause=0)[0] < TAKEOVER_SECONDS_MAX
        assert take_over(log, b, a, signal.SIGSTOP, pause=1)[0] < TAKEOVER_SECONDS_MAX
        assert finish(tmp_path, log, a) > 2000


@pytest.mark.parametrize("seed", [1, 2])
def test_a_standby_takes_over_many_times(tmp_path, seed, record_property):
    choice, kinds, times = random.Random(seed), Counter(), []
    log = Log(tmp_path, rounds=200, parts=2 * TAKEOVERS + 1)
    log.grow()
    with job_of(tmp_path, "a", "--standby") as a, job_of(tmp_path, "b", "--standby") as b:
        first, second = a, b
        first.start().wait_for("operator batch 0:", SECONDS)
        for number in range(TAKEOVERS):
            how = choice.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM))
            times.append(take_over(log, first, second, how, choice.uniform(0, 2)))
            print(f"\n{number + 1}: {how.name}, {times[-1][0]:.1f} s, with a batch {times[-1][1]:.1f} s", flush=True)
            kinds[how.name] += 1
            first, second = second, first
        rows = finish(tmp_path, log, first)
    taken, worked = (sorted(column) for column in zip(*times, strict=True))
    record_property("takeovers, rows", f"{dict(kinds)}, {rows:,}")
    record_property("start, median and worst, s", f"{taken[len(taken) // 2]:.1f}, {taken[-1]:.1f}")
    record_property("end of a batch, median and worst, s", f"{worked[len(worked) // 2]:.1f}, {worked[-1]:.1f}")
    assert taken[-1] < TAKEOVER_SECONDS_MAX
