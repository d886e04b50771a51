"""A hundred kills (SIGKILL) at random moments, of every process by turns: the tables are those of an undisturbed run.

The chain is that of `test_exactly_once`, with a collector and `maintain` beside it: broker with the hook, shipper and
collector, Kafka, the job (the whole of it, its JVM, its Python workers), `maintain`, which checks the tables meanwhile.
No check may fail: not one of a crash is a fault of the tables.
"""

import random
import time
from collections import Counter

import pytest

from checkpoints.quality import SUITE
from checkpoints.table_quality import TableGate
from tests.live.commands import Command
from tests.live.test_exactly_once import BATCH_SECONDS_MAX, TOPIC, Pipeline, check
from tests.support import hooked
from tests.support.hooked import rocketmq_jars
from tests.support.job_processes import kill_jvm, kill_workers
from tests.support.tables import read_rows

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.prove]

KILLS = 104
WEIGHTS = {"workers": 40, "shipper": 20, "collector": 14, "maintain": 12, "kafka": 5, "job": 7, "jvm": 6}
"""A start of the job takes 20 s; a query that loses its workers starts again within the job."""
PAUSE_SECONDS = 0.5
CHECK_SECONDS = 20
TRUE = {"times", "behind_seconds", "operator_behind_seconds"}
"""Checks that may fail, because it is so: with every process killed, volumes change, and queries fall behind."""


class Chain(Pipeline):
    """The pipeline with a collector and `maintain`."""

    again = 0
    """How often a process was started again that had ended by itself."""

    def broker_settings(self, stack):
        """Start a name server, at which the broker registers, and prepare who asks it."""
        names = stack.enter_context(hooked.name_server(self._folder / "names", rocketmq_jars()))
        values = self.values | {
            "COLLECTOR__NAME_SERVERS": f'["{names.address}"]',
            "COLLECTOR__INTERVAL_MS": 1_000,
            "COLLECTOR__DEADLINE_MS": 900,
            "COLLECTOR__GROUPS": '["none"]',  # the raw clients answer no request of a broker
            "QUALITY__CHECK_SECONDS": CHECK_SECONDS,
        }
        self.collector = stack.enter_context(Command(self._folder, values, "collect", "poll"))
        self.maintain = stack.enter_context(Command(self._folder, values, "maintain", "--every", "2s"))
        return {"name_server": names.address}

    def settings_of_log(self):
        """Return the settings of a check of the tables."""
        source = {"kind": "kafka", "bootstrap_servers": self.kafka.bootstrap, "topic": TOPIC}
        return self.settings.model_copy(update={"source": self.settings.source.model_copy(update=source)})

    def kill(self, who, choice):
        """Kill one of the processes, and start it again; its supervisor would."""
        if who in {"shipper", "kafka", "job"}:
            getattr(self, f"kill_{who}")(*[choice] * (who == "job"))
        elif who in {"collector", "maintain"}:
            process = getattr(self, who)
            process.kill()
            process.start()
        else:
            getattr(self, f"kill_{who}")(choice)

    def kill_jvm(self, choice):
        self.await_batch("batch")
        time.sleep(choice.uniform(0, 2.5))
        assert kill_jvm(self.job)
        assert self.job.ended(BATCH_SECONDS_MAX) == 1, self.job.said_now()
        self.job.start()

    def kill_workers(self, choice):
        """Kill all Python workers of the job, wherever they are; wait until it has ended a batch since."""
        self.await_batch("batch")
        time.sleep(choice.uniform(0, 1.5))
        self.again += kill_workers(self.job, BATCH_SECONDS_MAX)

    def revive(self):
        """Start again what has ended by itself, as a supervisor does: while Kafka is away."""
        for process in (self.shipper, self.collector, self.maintain):
            if not process.is_running:
                process.start()
                self.again += 1


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", [1])
def test_a_hundred_kills_of_every_process_change_no_row(settings_in, tmp_path, seed, record_property):
    choice = random.Random(seed)
    kills, began = Counter(), time.monotonic()
    chain = Chain(tmp_path, settings_in)
    with chain.running():
        chain.collector.start()
        with chain.making(PAUSE_SECONDS) as makers:
            chain.await_batch("operator batch")
            chain.maintain.start()
            while kills.total() < KILLS:
                who = choice.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
                time.sleep(choice.uniform(0, 2))
                chain.kill(who, choice)
                chain.revive()
                kills[who] += 1
                print(f"{time.monotonic() - began:.0f} s: {kills.total()} killed, the last one {who}", flush=True)
            minutes = (time.monotonic() - began) / 60
            chain.maintain.kill()
            chain.collector.kill()
        chain.finish()
        repeated = check(chain, makers)
        checked = TableGate(chain.settings_of_log()).check(time.time_ns() // 1_000_000, since=0)
    said = chain.collector.said() + chain.maintain.said()
    assert "Traceback" not in said
    results = [row for row in read_rows(chain.settings.runtime.tables, "quality_results") if row["suite"] != SUITE]
    assert [row for row in results if not row["success"] and row["column"] not in TRUE] == []
    assert checked.left_out == []
    record_property("killed", f"{dict(kills)} in {minutes:.0f} minutes; {chain.again} ended by themselves")
    calls = sum(len(maker.calls) for maker in makers)
    record_property("calls, each once and in order; repeated rows; checks", f"{calls:,}; {repeated:,}; {len(results)}")
