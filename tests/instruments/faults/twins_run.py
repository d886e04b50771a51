"""Let another broker register by the name of the lab's one, and record hooks and polls.

    python -m tests.instruments.faults.twins_run FOLDER

writes `recording.jsonl` and `run.json` to the folder; `test_twins` judges them. The other broker has no hook that
reports, the same cluster name, brokerName and brokerId, and no group, as that of a test cluster which was copied from
production and uses its name servers.
"""

import sys
import time
from pathlib import Path

import msgspec

from tests.instruments.faults.case import Group
from tests.instruments.faults.languages_run import second_broker
from tests.instruments.faults.run import collecting, recorded, settings_of
from tests.instruments.figures import commit
from tests.live.conftest import Watch, eventually

GROUPS = {"orders": Group(True, 2, 1, ()), "audit": Group(False, 2, 1, ())}
QUIET_SECONDS = 45
TWINS_SECONDS = 180
"""Six of a broker's registrations, which are 30 s apart."""
HEAL_SECONDS = 75
"""The clients look up the broker's address every 30 s, and poll it again."""
_JOIN_SECONDS_MAX = 400


class Run(msgspec.Struct, frozen=True):
    """The description of a recording; times are epoch milliseconds."""

    commit: str
    began: int
    twins_began: int
    twins_ended: int
    ended: int


def play(folder: Path) -> Path:
    """Record the run into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = settings_of(GROUPS, folder / "root", brokers=1)
    return recorded(folder, settings, lambda lab: _record(lab, settings, folder))


def _record(lab, settings, folder):
    with collecting(lab, folder).start() as collector:
        collector.wait_for("round", 300)
        watch = Watch(lab.name_server)
        for group in settings.lab.groups.values():
            eventually(lambda group=group: len(watch.owners(group.group, group.topic)) == 2, _JOIN_SECONDS_MAX)
        began = _now()
        time.sleep(QUIET_SECONDS)
        twins_began = _now()
        with second_broker(settings, lab, folder):
            time.sleep(TWINS_SECONDS)
        twins_ended = _now()
        time.sleep(HEAL_SECONDS)
        ended = _now()
        assert collector.interrupt() == 0, collector.said()
    return Run(commit(), began, twins_began, twins_ended, ended)


def _now() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    play(Path(sys.argv[1]))
