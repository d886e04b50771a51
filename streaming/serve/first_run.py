"""Steps that are left until there are consumer groups: requirements, telemetry, job."""

import json
import math
import subprocess
import sys
import threading
import time
from typing import Literal, NamedTuple

from checkpoints.lease import is_claimed
from streaming.base.errors import NotFoundError, UserError
from streaming.base.language import Later
from streaming.base.place import tables_of
from streaming.base.settings import Settings
from streaming.log.open import has_telemetry

State = Literal["done", "todo", "wrong", "checking"]
_DOCTOR_SECONDS_MAX = 60
_VALID_SECONDS = {"doctor": 30.0, "telemetry": 5.0, "job": 1.0}
"""The time for which what was found of a step holds, in seconds; requirements that are met stay so."""
_COMMANDS = {
    "doctor": "rebalance-watch doctor",
    "telemetry": "rebalance-watch collect poll",
    "job": "rebalance-watch run",
}


class FirstRunStep(NamedTuple):
    """One step of the checklist."""

    name: str
    state: State
    finding: Later
    """The finding, in one sentence."""
    advice: tuple[Later | str, ...] = ()
    """The change to make."""
    command: str = ""
    """The command to run; empty if it is done."""


class FirstRun:
    """The steps until there are groups; checked while a page waits for these, and never otherwise."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._checks = {"doctor": self._doctor, "telemetry": self._telemetry, "job": self._job}
        self._steps = {name: FirstRunStep(name, "checking", Later("Checking …")) for name in self._checks}
        self._due = dict.fromkeys(self._checks, 0.0)

    def current_steps(self) -> tuple[FirstRunStep, ...]:
        """Return the steps as last looked at, in order; those that are due are looked at in the background."""
        for name, due in self._due.items():
            if time.monotonic() >= due:
                self._due[name] = math.inf  # not again while it is looked at
                threading.Thread(target=self._update, args=(name,), name=f"first run: {name}", daemon=True).start()
        return tuple(self._steps.values())

    def _update(self, name: str) -> None:
        step = self._checks[name]()
        is_done = step.state == "done"
        self._steps[name] = step if is_done else step._replace(command=step.command or _COMMANDS[name])
        self._due[name] = math.inf if is_done and name == "doctor" else time.monotonic() + _VALID_SECONDS[name]

    def _doctor(self) -> FirstRunStep:
        """Run `doctor` as the user would: its checks belong to the command line, and import what this process lacks."""
        command = [sys.executable, "-m", "streaming.cli", "doctor", "--format", "json"]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=_DOCTOR_SECONDS_MAX, check=False)
            checks = json.loads(ended.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return FirstRunStep("doctor", "wrong", Later("`rebalance-watch doctor` could not be run here."))
        wrong = [check for check in checks if check["state"] != "ok" and check["needed"]]
        if not wrong:
            return FirstRunStep(
                "doctor", "done", Later("{n} checks on this machine: the job can start.", n=len(checks))
            )
        advice = tuple(f"{check['part']}: {check['found']}. {check['mend']}".strip() for check in wrong)
        return FirstRunStep("doctor", "wrong", Later("The job can't start on this machine."), advice)

    def _telemetry(self) -> FirstRunStep:
        source = self._settings.source
        log = Later("topic {topic} at {servers}", topic=source.topic, servers=source.bootstrap_servers)
        if source.kind == "files":
            log = Later("files in {folder}", folder=self._settings.log_path)
        try:
            seen = has_telemetry(self._settings)
        except UserError as error:
            lacks_topic = isinstance(error, NotFoundError)
            command = "rebalance-watch topic create" if lacks_topic else ""
            return FirstRunStep(
                "telemetry", "wrong", Later("The log can't be read ({log}).", log=log), (str(error),), command
            )
        if seen:
            return FirstRunStep("telemetry", "done", Later("The log has telemetry ({log}).", log=log))
        servers = ", ".join(server for one in self._settings.collector.polled for server in one.name_servers)
        advice = Later(
            "collector.name_servers is {servers}; `rebalance-watch doctor --servers` says whether they answer.",
            servers=servers,
        )
        return FirstRunStep("telemetry", "todo", Later("No telemetry yet ({log}).", log=log), (advice,))

    def _job(self) -> FirstRunStep:
        tables = tables_of(self._settings)
        if is_claimed(self._settings.runtime.checkpoints):
            sentence = Later(
                "The job is running; its first groups appear within seconds (tables: {tables}).", tables=tables
            )
            return FirstRunStep("job", "done", sentence)
        return FirstRunStep("job", "todo", Later("No job runs on this machine (tables: {tables}).", tables=tables))
