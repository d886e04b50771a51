"""The supervisor with real child processes, which are small."""

import os
import signal
import subprocess
import sys
import time
from threading import Timer

import pytest

from streaming.base.errors import UserError
from streaming.supervise.child import Program
from streaming.supervise.supervisor import RestartPolicy, Supervisor

QUICK = RestartPolicy(first_ms=20, longest_ms=100, failing_ms=150)
CHILD = """
import os, signal, sys, time
from streaming.supervise.parent import stop_with_supervisor
def end(*_):
    print("ends", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
stop_with_supervisor()
print("runs", os.getpid(), flush=True)
while True:
    time.sleep(60)
"""
STUBBORN = "print('runs', flush=True)\nimport time\ntime.sleep(600)"


class Printed(list):
    """The printed lines; `on` is called with each."""

    def __init__(self, on=lambda name, line: None):
        super().__init__()
        self.on = on

    def __call__(self, name, line):
        self.append((name, line))
        self.on(name, line)


def program(name, code):
    return Program(name, (sys.executable, "-c", code))


def supervise(printed, *programs, policy=QUICK, grace_seconds=30.0):
    supervisor = Supervisor(programs, printed, policy, grace_seconds=grace_seconds)
    printed.stop, printed.down = supervisor.stop, supervisor.down
    supervisor.run()


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def stopping_when_all_run(count):
    """Return what is printed; the supervisor is stopped when so many programs run."""
    running = set()

    def on(name, line):
        if line.startswith("runs"):
            running.add(name)
            if len(running) == count:
                printed.stop()

    printed = Printed(on)
    return printed


def test_all_are_asked_at_once_to_end(tmp_path):
    """The end of all takes as long as the longest, not as all of them together."""
    names = ["collect", "run", "dashboard"]
    others = f"""    pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()
    while len(os.listdir({str(tmp_path)!r})) < {len(names)}:
        time.sleep(0.01)
"""
    waiting = CHILD.replace("import os", "import os, pathlib").replace('    print("ends"', f'{others}    print("ends"')
    printed = stopping_when_all_run(len(names))
    supervise(printed, *(program(name, waiting) for name in names))
    assert {name for name, line in printed if line == "ends"} == {*names}


def test_what_is_killed_is_started_again_and_the_others_stay():
    pids = []

    def on(name, line):
        if line.startswith("runs") and name == "run":
            pids.append(int(line.split()[1]))
            if len(pids) < 3:
                os.kill(pids[-1], signal.SIGKILL)
            else:
                printed.stop()

    printed = Printed(on)
    supervise(printed, program("collect", CHILD), program("run", CHILD))
    said = [line for name, line in printed if "again" in line]
    assert said == ["was killed by SIGKILL; starting it again in 0.02 s",
                    "was killed by SIGKILL; starting it again in 0.04 s"]  # fmt: skip
    assert len([line for name, line in printed if name == "collect" and line.startswith("runs")]) == 1
    assert not any(map(is_there, pids))


FAILING = "import sys\nprint('hello')\nprint('error: No name server answers.', file=sys.stderr)\nsys.exit(1)"
KEPT_FAILING = "ended 5 times within 10 minutes; the last time it ended with exit code 1: No name server answers."


def test_what_keeps_failing_stops_nothing_else_and_is_tried_again():
    def on(name, line):
        if (name, line) == ("collect", "hello") and printed.count((name, line)) == 8:
            down.append(printed.down("collect"))
            printed.stop()

    down, printed = [], Printed(on)
    with pytest.raises(UserError) as ended:
        supervise(printed, program("collect", FAILING), program("run", CHILD))
    assert str(ended.value) == f"collect {KEPT_FAILING}", "who stops `up` hears of it, by its exit code, too"
    assert down == [f"collect {KEPT_FAILING}"]
    assert printed.down("run") is None
    again = [line for name, line in printed if name == "collect" and "again" in line]
    assert again[3:5] == [
        "ended with exit code 1; starting it again in 0.1 s",
        f"{KEPT_FAILING} The others run on; starting it again in 0.15 s",
    ]
    assert [line.split()[0] for name, line in printed if name == "run"] == ["runs", "ends"], "once, until the end"


def test_what_failed_often_and_runs_again_is_no_failure_at_the_end(tmp_path):
    """It has run for long enough when all are stopped."""
    mark = tmp_path / "mark"
    recovering = (
        f"import pathlib, sys\nmark = pathlib.Path({str(mark)!r})\nmark.open('a').write('x')\n"
        f"if len(mark.read_text()) < 7:\n    sys.exit(1)\n{CHILD}"
    )
    policy = RestartPolicy(first_ms=5, longest_ms=5, failing_ms=5, settled_ms=10)
    settled = RestartPolicy(first_ms=5, longest_ms=5, failing_ms=5, settled_ms=10**9)

    def on(name, line):
        if line.startswith("runs"):
            Timer(0.1, printed.stop).start()

    for tried, fails in ((settled, True), (policy, False)):
        mark.unlink(missing_ok=True)
        printed = Printed(on)
        if fails:
            with pytest.raises(UserError, match="ended 5 times"):
                supervise(printed, program("collect", recovering), policy=tried)
        else:
            supervise(printed, program("collect", recovering), policy=tried)


def test_a_wrong_setting_stops_all_at_once():
    wrong = "import sys\nprint('error: Setting a.b: wrong.')\nsys.exit(2)"
    printed = Printed()
    with pytest.raises(UserError, match=r"^collect can't run: Setting a\.b: wrong\.$"):
        supervise(printed, program("collect", wrong), program("run", CHILD))
    assert [line for _, line in printed if "again" in line] == []


def test_without_an_error_line_the_last_lines_are_the_reason():
    lines = "import sys\nprint('1\\n2\\n3\\n4')\nsys.exit(3)"
    printed = Printed(lambda _, line: "The others" in line and printed.stop())
    with pytest.raises(UserError, match=r": 2 / 3 / 4$"):
        supervise(printed, program("collect", lines))


def test_a_program_that_is_not_there_is_one_sentence():
    with pytest.raises(UserError, match=r"can't be started \(No such file or directory\)\.$"):
        supervise(Printed(), Program("collect", ("/nowhere/at/all",)))


def test_what_does_not_end_is_killed():
    printed = Printed(lambda name, line: line == "runs" and printed.stop())
    supervise(printed, program("run", STUBBORN), grace_seconds=0.2)
    assert printed[-1] == ("run", "has not ended within 0.2 s and is killed")


def test_a_program_may_have_a_time_of_its_own_to_end():
    printed = Printed(lambda name, line: line == "runs" and printed.stop())
    supervise(printed, Program("collect", program("", STUBBORN).command, 0.2), grace_seconds=500)
    assert printed[-1] == ("collect", "has not ended within 0.2 s and is killed")


def test_a_second_request_kills_at_once():
    printed = Printed(lambda name, line: line == "runs" and (printed.stop(), Timer(0.2, printed.stop).start()))
    began = time.monotonic()
    supervise(printed, program("run", STUBBORN), grace_seconds=500)
    assert time.monotonic() - began < 200


def test_no_child_outlives_a_supervisor_that_is_killed(tmp_path):
    code = f"""
import sys
from streaming.supervise.child import Program
from streaming.supervise.supervisor import Supervisor
names = ["collect", "run"]
programs = [Program(name, (sys.executable, "-c", {CHILD!r})) for name in names]
Supervisor(programs, lambda name, line: print(line, flush=True)).run()
"""
    supervisor = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with supervisor:
        pids = [int(supervisor.stdout.readline().split()[1]) for _ in range(2)]
        assert all(map(is_there, pids))
        supervisor.kill()
    deadline = time.monotonic() + 200
    while any(map(is_there, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
