"""Run everything for a long time at a high rate, with a fault every few minutes, and measure it.

    python -m tests.instruments.soak FOLDER --minutes 95 --rate 1000 --seed 1

A real lab with the hook, Kafka, and our processes under `rebalance-watch up` with the settings of production. A sender
adds the events of a large cluster. By turns a fault hits the lab (`cases.SOAK`), which is cured after the time of
its case, and one of our processes is killed (SIGKILL), or Kafka is restarted. All that is observed is in the folder as
it happens; `verdict` judges it, also again later, and also what a run that broke off has left.
"""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Annotated

import httpx
import msgspec
import typer

from streaming.base.settings import load_settings
from streaming.lab import servers
from streaming.lab.lab import Lab
from streaming.lab.state import LabFolder
from streaming.log.kafka import create_topic, offsets_of
from tests.instruments.faults.case import BROKER, Case
from tests.instruments.faults.run import man, play_case, settings_of
from tests.instruments.faults.stories import SOAK
from tests.instruments.figures import commit
from tests.instruments.soak import verdict
from tests.instruments.soak.records import PART_OF, PARTITIONS, Fault, Run
from tests.instruments.soak.samples import Sampler, pids_by_kind
from tests.live.alert_receivers import Webhook
from tests.live.commands import Command, Kafka

TOPIC = "soak"
RETENTION_MS = 7 * 86_400_000
TRIGGER_SECONDS, ARCHIVE_TRIGGER_SECONDS = 20, 60
"""Not the defaults, by which a batch begins as soon as the one before it ends: they fill the cores at any rate, and how
long a batch takes then shows how fast the machine is at the moment, several times over."""
WARM_UP_SECONDS = 60
READY_SECONDS_MAX = 400
BACK_SECONDS_MAX = 400
REST_SECONDS_MAX = 1_800
QUIET_SHARE = 0.05
"""Of the run: at its end no fault begins, so that it shows what the queries are behind, not that they were away."""
SETTLE_SECONDS = 120
"""After the last process is back: incidents of the telemetry that it kept away are resolved."""
_STARTS_MAX = 5
_ALERTS = """
routes = [{{severity = "info", clusters = ["lab"], channels = ["hook"]}}]
channels = {{hook = {{kind = "webhook", url = "{url}/ours"}}}}
"""


class Soak:
    """The chain, its faults, and what is written about them."""

    def __init__(self, folder: Path, run: Run, every: tuple[float, float]) -> None:
        """Prepare the folder; ``every``: shortest and longest seconds between two faults."""
        self._folder, self._run, self._every = folder, run, every
        self._choice = random.Random(run.seed)
        self._story = settings_of(SOAK, folder / "root")
        self._port, self._dashboard = servers.free_port(), servers.free_port()
        self.kafka = Kafka(folder / "kafka")
        self._senders: list[Command] = []
        self._active: set[str] = set()
        """The groups of the lab that have a fault, or recover from it."""
        self._lock = threading.Lock()

    def play(self) -> None:
        """Run it to its end; no process is left over."""
        with ExitStack() as stack:
            stack.callback(self._end_lab)
            webhook = stack.enter_context(Webhook())
            stack.enter_context(self.kafka)
            self.kafka.start()
            create_topic(self.kafka.administrator, TOPIC, PARTITIONS, replication=1, retention_ms=RETENTION_MS)
            lab = Lab.up(settings_of(SOAK, self._folder / "root", manned=False))
            values = self._values(lab, webhook)
            self.up = stack.enter_context(Command(self._folder, values, "up", "--spool", lab.spool, name="up"))
            self.up.start()
            self._await(self._is_ready, READY_SECONDS_MAX, "up is ready")
            man(self._story)
            stack.callback(self._kill_senders)
            self._send()
            settings = load_settings(
                runtime={"root": self._folder / "root"},
                web={"port": self._dashboard},
                source={"bootstrap_servers": self.kafka.bootstrap, "topic": TOPIC, "partitions": PARTITIONS},
            )
            with Sampler(self._folder / "samples.jsonl", settings, self._probe, self._pids):
                self._watch(time.monotonic() + WARM_UP_SECONDS, webhook)
                self._run.began = _now()
                self.save()
                self._faults(webhook)
                self._run.ended = _now()
                self.save()
                self._end_senders()
                self._run.up_code = self._end_up()
            self._end_lab()
            self._run.rest_code = self._process_the_rest(values)
            self._run.offsets = offsets_of(self.kafka.administrator, TOPIC)
            self._keep_alerts(webhook)
            self.save()

    def save(self) -> None:
        """Write the description as it is now."""
        (self._folder / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(self._run)))

    def _values(self, lab: Lab, webhook: Webhook) -> dict[str, object]:
        alerts = self._folder / "alerts.toml"
        alerts.write_text(_ALERTS.format(url=webhook.url))
        return {
            "RUNTIME__ROOT": self._folder / "root",
            "RUNTIME__JARS": self._story.runtime.jars,
            "COLLECTOR__NAME_SERVERS": msgspec.json.encode([lab.name_server]).decode(),
            "SOURCE__KIND": "kafka",
            "SOURCE__BOOTSTRAP_SERVERS": self.kafka.bootstrap,
            "SOURCE__TOPIC": TOPIC,
            "SOURCE__PARTITIONS": PARTITIONS,
            "JOB__TRIGGER_SECONDS": TRIGGER_SECONDS,
            "JOB__ARCHIVE_TRIGGER_SECONDS": ARCHIVE_TRIGGER_SECONDS,
            "ALERTS__FILE": alerts,
            "WEB__PORT": self._dashboard,
            "HEALTH__UP": self._port,
            "LOG__FORMAT": "json",
        }

    def _faults(self, webhook: Webhook) -> None:
        """One fault after the other, of the lab and of ours by turns, until the time is over and all have healed."""
        end = time.monotonic() + self._run.minutes * 60
        last = end - QUIET_SHARE * self._run.minutes * 60
        ours, lab = _bag(self._choice, list(PART_OF)), _bag(self._choice, _cases())
        is_labs_turn = True
        hits: list[threading.Thread] = []  # daemons: if this run is ended, they do not delay the end of its processes
        while (due := time.monotonic() + self._choice.uniform(*self._every)) < last:
            self._watch(due, webhook)
            case = self._next_case(lab, end) if is_labs_turn else None
            hit = (self._hit_lab, case) if case is not None else (self._hit_ours, (next(ours),))
            hits.append(threading.Thread(target=hit[0], args=hit[1], daemon=True))
            hits[-1].start()
            is_labs_turn = not is_labs_turn
        self._watch(end, webhook)
        while any(hit.is_alive() for hit in hits):
            self._watch(time.monotonic() + 1, webhook)
        self._watch(time.monotonic() + SETTLE_SECONDS, webhook)

    def _next_case(self, bag: Iterator[tuple[str, int]], end: float) -> tuple[str, int] | None:
        """Return a case of a group without one that heals before the end, a broker's only while no group has one."""
        for _ in range(2 * len(_cases())):
            key, number = next(bag)
            case = SOAK[key].cases[number]
            with self._lock:
                is_free = not self._active if key == BROKER else not self._active & {key, BROKER}
                if is_free and time.monotonic() + case.lasts + case.heal + 30 < end:
                    self._active.add(key)
                    return key, number
        return None

    def _hit_lab(self, key: str, number: int) -> None:
        case: Case = SOAK[key].cases[number]
        fault = Fault(_now(), "lab", f"{case.fault} ({'broker' if key == BROKER else key})")
        self._say(f"{fault.what} begins")
        try:
            fault.played = play_case(self._story, key, number, case)
            fault.back = fault.played.cured
        except Exception as error:  # noqa: BLE001  the others go on
            fault.kind, fault.what = "failure", f"{fault.what}: {error}"
        finally:
            with self._lock:
                self._active.discard(key)
        self._record(fault)

    def _hit_ours(self, what: str) -> None:
        fault = Fault(_now(), "ours", what)
        self._say(f"{what} is killed")
        batches = self._batches()
        try:
            if what == "kafka":
                self.kafka.kill()
                self.kafka.start()
            else:
                self._kill(what)
            time.sleep(5)
            self._await(lambda: self._is_back(what, batches), BACK_SECONDS_MAX, f"{what} is ready again")
            fault.back = _now()
        except Exception as error:  # noqa: BLE001  the others go on
            self._record(Fault(_now(), "failure", f"{what}: {error}"))
        self._record(fault)

    def _is_back(self, what: str, batches: tuple[int, int]) -> bool:
        """Return whether it is ready; if the job reads or is killed, whether each query has ended two batches since."""
        if PART_OF[what] in ("run", "") and any(
            now < before + 2 for now, before in zip(self._batches(), batches, strict=True)
        ):
            return False
        return self._is_ready(PART_OF[what])

    def _batches(self) -> tuple[int, int]:
        """Return how many batches each query has ended."""
        said = self.up.said()
        return said.count('"operator batch '), said.count('"archive batch ')

    def _kill(self, what: str) -> None:
        kind = "run" if what == "job" else what
        self._await(lambda: pids_by_kind(self.up.pid).get(kind), 60, f"{kind} runs")
        for pid in pids_by_kind(self.up.pid)[kind]:
            try:
                if what == "job":
                    os.killpg(pid, signal.SIGKILL)
                else:
                    os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def _watch(self, until: float, webhook: Webhook) -> None:
        """Wait; keep the alerts, and start again what must not end."""
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 2.0))
            self._keep_alerts(webhook)
            if not self.up.is_running:
                self._record(Fault(_now(), "failure", f"up ended with exit code {self.up.ended()}"))
                self.up.start()
            if not self._senders[-1].is_running:
                self._record(Fault(_now(), "failure", f"the sender ended with exit code {self._senders[-1].ended()}"))
                self._send()

    def _keep_alerts(self, webhook: Webhook) -> None:
        with (self._folder / "alerts.jsonl").open("ab") as file:
            while webhook.taken:
                _, key, body = webhook.taken.pop(0)
                file.write(msgspec.json.encode({"time": _now(), "key": key, "alerts": body["alerts"]}) + b"\n")

    def _send(self) -> None:
        name = f"sent-{len(self._senders) + 1}"
        arguments = (self.kafka.bootstrap, TOPIC, PARTITIONS, self._run.rate, self._folder / f"{name}.json")
        program = ("-m", "tests.instruments.soak.sender")
        self._senders.append(Command(self._folder, {}, *arguments, program=program, name=name).start())

    def _end_senders(self) -> None:
        self._senders[-1].send_signal(signal.SIGTERM)
        if code := self._ended(self._senders[-1], 600, "the sender"):
            self._record(Fault(_now(), "failure", f"the sender ended with exit code {code}"))

    def _kill_senders(self) -> None:
        for sender in self._senders:
            sender.kill()

    def _end_up(self) -> int | None:
        """End all our processes as Ctrl-C does."""
        self.up.send_signal(signal.SIGINT)
        return self._ended(self.up, 600, "up")

    def _process_the_rest(self, values: dict[str, object]) -> int | None:
        """Process what is left of the log; again if the former run has not given up its lease yet."""
        code = None
        with Command(self._folder, values, "run", "--available-now", name="rest") as job:
            for _ in range(_STARTS_MAX):
                code = self._ended(job.start(), REST_SECONDS_MAX, "the run over the rest of the log")
                if code == 0:
                    break
                time.sleep(30)
        return code

    def _ended(self, command: Command, seconds: float, what: str) -> int | None:
        """Return the exit code; None: it had to be killed."""
        try:
            return command.ended(seconds)
        except TimeoutExpired:
            self._record(Fault(_now(), "failure", f"{what} has not ended within {seconds:g} s"))
            command.kill()
            return None

    def _end_lab(self) -> None:
        if (left := Lab.find(self._story)) is not None:
            left.down()

    @property
    def _probe(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def _is_ready(self, part: str = "") -> bool:
        """Return whether all tasks are ready by the probe of `up`, or those of one part."""
        try:
            tasks = httpx.get(f"{self._probe}/readyz", timeout=10).json()["tasks"]
        except (httpx.HTTPError, ValueError):
            return False
        mine = [task for task in tasks if not part or task["task"].partition(":")[0] == part]
        return bool(mine) and all(task["ready"] for task in mine)

    def _pids(self) -> dict[str, list[int]]:
        pids = pids_by_kind(self.up.pid) | {
            "up": [self.up.pid],
            "sender": [self._senders[-1].pid],
            "soak": [os.getpid()],
        }
        if self.kafka.process is not None:
            pids["Kafka"] = [self.kafka.process.pid]
        lab = LabFolder(self._story.runtime.lab).load()
        for member in lab.members.values() if lab else ():
            pids.setdefault(f"lab: {member.role}", []).append(member.process.pid)
        return pids

    def _await(self, holds, seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:g} s: {what}")
            time.sleep(1.0)

    def _record(self, fault: Fault) -> None:
        with self._lock, (self._folder / "faults.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(fault) + b"\n")
        back = "not back" if fault.back is None else f"back after {(fault.back - fault.time) / 1000:.0f} s"
        self._say(f"{fault.kind}: {fault.what}, {back}")

    def _say(self, text: str) -> None:
        print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def _cases() -> list[tuple[str, int]]:
    return [(key, number) for key, group in SOAK.items() for number in range(len(group.cases))]


def _bag(choice: random.Random, content: list) -> Iterator:
    """Yield all of it in a random order, again and again."""
    while True:
        choice.shuffle(content)
        yield from list(content)


def _now() -> int:
    return time.time_ns() // 1_000_000


def play(folder: Path, minutes: float, rate: int, seed: int, every: tuple[float, float] = (120, 240)) -> Path:
    """Run the soak into an empty folder."""
    folder.mkdir(parents=True)
    run = Run(minutes, rate, seed, commit(), f"{datetime.now(UTC):%Y-%m-%d}", os.cpu_count() or 0, _now())
    Soak(folder.resolve(), run, every).play()
    return folder


def main(
    folder: Path,
    minutes: Annotated[float, typer.Option(help="From the first possible fault to the end of the last one.")] = 90,
    rate: Annotated[int, typer.Option(help="Events a second of the sender.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Of the choice of faults.")] = 1,
    every: Annotated[tuple[float, float], typer.Option(help="Seconds between two faults.")] = (120, 240),
) -> None:
    """Run, judge, and print the verdict; exit code 1 if something is wrong."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # through the blocks that end the processes
    play(folder, minutes, rate, seed, every)
    raise typer.Exit(verdict.report(folder, keeps=True))
