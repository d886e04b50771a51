"""Run a story of faults in a lab of its own, and record hooks, polls and the output of `mqadmin consumerStatus`.

    python -m tests.instruments.faults.run STORY FOLDER

writes `recording.jsonl`, `faults.jsonl`, `mqadmin.jsonl` and `run.json` to the folder. `verdict` judges them, and
can do so again when rules change. In a story of consumers that pop it is `mqadmin consumerProgress`, and what the
broker's own metrics say meanwhile is in `otel.jsonl` (`pop_verdict`).
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from streaming.base.settings import load_settings
from streaming.lab.lab import Lab
from streaming.lab.pop_faults import POP_FAULTS
from tests.instruments.faults.case import BROKER
from tests.instruments.faults.field import FIELD_FAULTS, FieldFaults
from tests.instruments.faults.fleet import Fleet
from tests.instruments.faults.otel import Otel, otel_properties
from tests.instruments.faults.stories import FLEET, FLEET_PACE_SECONDS, FLEET_SIZE, LAB_OF, STORIES
from tests.instruments.figures import commit
from tests.live.commands import Command
from tests.live.conftest import Watch, eventually

QUIET_SECONDS = 25
"""Two polls before the first fault: until then no incident may be reported."""
_SHARED_OUT_SECONDS_MAX = 240
MESSAGES_PER_SECOND = 3.0
FLEET_SETTLES_SECONDS = 60


class Played(msgspec.Struct, frozen=True):
    """One case of the story as it was run (epoch ms); ``cured`` is the time at which the cure had taken effect."""

    group: str
    case: int
    time: int
    done: int
    cure: int
    cured: int
    client: str
    client_id: str
    end: int
    """The end of the time to recover."""


class Run(msgspec.Struct, frozen=True):
    """The description of a recording."""

    story: str
    commit: str
    date: str
    began: int
    ended: int
    load: tuple[float, float, float]
    played: list[Played]


def settings_of(story, folder, *, manned=True, **lab):
    """A lab with the story's groups, and their consumers; ``lab``: further settings of it."""
    groups = {
        key: {
            "group": f"{key}-group",
            "topic": key.capitalize(),
            "ordered": group.ordered,
            "queues": group.queues,
            "consumers": group.consumers if manned else 0,
        }
        for key, group in story.items()
        if key != BROKER
    }
    pops = {key: fields | {"client": story[key].client} for key, fields in groups.items() if story[key].client}
    if pops:  # none pulls then, but the lab needs such a group
        groups = {key: {"consumers": 0} for key in load_settings().lab.groups}
    return load_settings(
        runtime={"root": folder, "jars": load_settings().runtime.jars},
        lab={
            "groups": groups,
            "kafka": False,
            "messages_per_second": MESSAGES_PER_SECOND,
            "pop": bool(pops),
            "pop_groups": pops,
        }
        | lab,
    )


def play(name, folder):
    """Record the story into the folder, in a lab that is there only for it."""
    story = STORIES[name]
    folder.mkdir(parents=True, exist_ok=True)
    more = {"broker": otel_properties()} if _pops(story) else LAB_OF.get(name, {})
    settings = settings_of(story, folder / "root", **more)
    unmanned = settings_of(story, folder / "root", manned=False, **more)
    return recorded(folder, unmanned, lambda lab: _record(name, story, settings, lab, folder))


def recorded(folder, settings, record):
    """Record a run in a lab that is there only for it; `record` gets the lab, and returns the run's description."""
    try:
        run = record(Lab.up(settings))
    finally:
        if (left := Lab.find(settings)) is not None:
            left.down()
    (folder / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(run)))
    return folder


def collecting(lab, folder):
    """Return the command that polls a lab, and writes its answers and what its hooks report to the recording."""
    environment = {"COLLECTOR__NAME_SERVERS": msgspec.json.encode([lab.name_server]).decode()}
    if lab.proxy:
        environment["COLLECTOR__PROXIES"] = msgspec.json.encode([lab.proxy]).decode()
    return Command(
        folder, environment, "collect", "poll", "--to", folder / "recording.jsonl", "--spool", str(lab.spool)
    )


def _pops(story):
    return any(group.client for group in story.values())


def _record(name, story, settings, lab, folder):
    asked = "consumerProgress" if _pops(story) else "consumerStatus"
    metrics = Otel(settings.lab.broker, folder / "otel.jsonl") if _pops(story) else nullcontext()
    groups = [f"{key}-group" for key in story if key != BROKER]
    with collecting(lab, folder).start() as collector, metrics, (folder / "mqadmin.jsonl").open("wb") as said:
        arguments = [lab.name_server, str(folder / "mqadmin"), asked, *groups]
        command = [sys.executable, "-m", "tests.instruments.faults.mqadmin_loop", *arguments]
        mqadmin = subprocess.Popen(command, stdout=said, stderr=subprocess.DEVNULL)
        try:
            collector.wait_for("round", 300)
            began = _now()
            man(settings)
            time.sleep(QUIET_SECONDS)
            with ThreadPoolExecutor(len(story)) as pool:
                tracks = [
                    pool.submit(_roll if key == FLEET else _track, settings, key, group.cases)
                    for key, group in story.items()
                    if key != BROKER
                ]
                played = [one for track in tracks for one in track.result()]
            if BROKER in story:
                played += _track(settings, BROKER, story[BROKER].cases)
            ended = max(one.end for one in played)
        finally:
            mqadmin.terminate()
            mqadmin.wait(200)
        assert collector.interrupt() == 0, collector.said()
    (folder / "faults.jsonl").write_bytes(lab.fault_log.read_bytes())
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    return Run(name, commit(), date, began, ended, os.getloadavg(), played)


def man(settings):
    """Start all consumers at once; the recording includes the start."""
    watch = Watch(Lab.up(settings).name_server)
    for group in settings.lab.groups.values():
        if group.consumers:
            eventually(lambda group=group: watch.is_shared_out(group, settings.lab.brokers), _SHARED_OUT_SECONDS_MAX)


def _track(settings, key, cases):
    """Run one case after the other."""
    return [play_case(settings, key, number, case) for number, case in enumerate(cases)]


def play_case(settings, key, number, case):
    """Run one case of a group: the fault, its cure, and the time to recover."""
    lab, target = Lab(settings), None if key == BROKER else _target(settings, case.fault, key)
    if case.fault in FIELD_FAULTS:
        lab = FieldFaults(settings, lab.name_server)
    fault = lab.fault(case.fault, client=target)
    time.sleep(max(0.0, fault.done / 1000 + case.lasts - time.time()))
    cure = lab.cure(case.fault, client=fault.client or fault.broker or target)
    time.sleep(case.heal)
    return Played(key, number, fault.time, fault.done, cure.time, cure.done, fault.client, fault.client_id, _now())


def _roll(settings, key, cases):
    """Start many clients at once, then replace them one by one or all at once."""
    played = []
    with Fleet(Lab(settings).name_server, settings.lab.groups[key], settings.runtime.root) as fleet:
        first = range(FLEET_SIZE)
        fleet.change(start=first)
        time.sleep(FLEET_SETTLES_SECONDS)
        for number, case in enumerate(cases):
            then, began = range(first.stop, first.stop + FLEET_SIZE), _now()
            if case.fault == "one-by-one":
                for old, new in zip(first, then, strict=True):
                    fleet.change(start=[new], stop=[old])
                    time.sleep(FLEET_PACE_SECONDS)
            else:
                fleet.change(start=then, stop=first)
            done, first = _now(), then
            time.sleep(case.heal)
            played.append(Played(key, number, began, done, done, done, "", "", _now()))
    return played


def _target(settings, fault, key):
    """Return the target of the fault: the topic, the whole group, a new consumer, or the first one."""
    if fault == "add-queues":
        return key.capitalize()
    if settings.lab.pop and POP_FAULTS[fault][settings.lab.pop_groups[key].client].target == "group":
        return key
    new = {"join", "slow-pull", "subscription", "topic-set", "strategy", "mixed", "broadcast", "pull-among-pops"}
    return f"{key}-9" if fault in new else f"{key}-1"


def _now():
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    play(sys.argv[1], Path(sys.argv[2]))
