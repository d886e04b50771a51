"""From alerts to a message that people read: Jinja templates in a sandbox, ours or the user's.

A template's first line is the title. One that fails on an alert that it was not tried with at the start costs the
alert its looks, not its delivery: ours takes its place.
"""

import json
from collections import Counter
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import structlog
from jinja2 import ChoiceLoader, DictLoader, StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rebalance_model.observe.effects import IncidentTransition
from streaming.alerting.alert import Alert, Delivery
from streaming.alerting.reach import Ask, nothing
from streaming.dashboard.links import incident_link
from streaming.errors import UserError
from streaming.times import written

TEMPLATE_ERRORS = (TemplateError, ArithmeticError, LookupError, TypeError, ValueError)
"""What a template may raise: its own errors, and those of what it works out."""
NAMES = ("opened", "escalated", "reminder", "resolved", "summary")
_GROUPS_NAMED = 3
"""A line of a summary names so many groups, and counts the rest."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel sends. As JSON it is the body that a webhook gets."""

    key: str
    """The idempotency key: who has taken it once may drop it the next time."""
    title: str
    body: str
    summary: bool
    link: str
    alerts: tuple[dict[str, Any], ...]
    """Each with its own ``key``, its ``kind``, the transition's columns, and a ``link``."""


def sandbox(loader: ChoiceLoader | None = None) -> ImmutableSandboxedEnvironment:
    """Where templates run: they see what they are given, change nothing and reach nothing else."""
    environment = ImmutableSandboxedEnvironment(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"time": written, "span": _span}
    return environment


class Texts:
    """Makes messages."""

    def __init__(self, folder: str, address: str, reach: Ask = nothing) -> None:
        """Read and try every template.

        Args:
            folder: the user's templates, over ours; empty: none.
            address: where people reach the dashboard.
            reach: says how much a cluster's incident touches.

        Raises:
            UserError: a template can't be used.
        """
        self._address = address
        self._reach = reach
        ours = DictLoader({name: _ours(name) for name in NAMES})
        self._ours = sandbox(ChoiceLoader([ours]))
        self._theirs = self._ours
        if folder:
            path = Path(folder)
            if not path.is_dir():
                raise UserError(f"The folder of alert templates {path} does not exist: correct `templates`.")
            given = {name: _read(path / f"{name}.txt") for name in NAMES if (path / f"{name}.txt").is_file()}
            self._theirs = sandbox(ChoiceLoader([DictLoader(given), ours]))
            self._try(path)

    def message(self, delivery: Delivery) -> Message:
        """The message of a delivery; the same for every attempt."""
        try:
            return self._message(self._theirs, delivery)
        except TEMPLATE_ERRORS as error:
            structlog.get_logger().warning("a template failed, ours is used", reason=str(error), key=delivery.key)
            return self._message(self._ours, delivery)

    def _message(self, environment: ImmutableSandboxedEnvironment, delivery: Delivery) -> Message:
        facts = [self._facts(alert) for alert in delivery.alerts]
        if delivery.summary:
            parts = [_parts(environment, "summary", _summary(facts) | {"address": self._address})]
        else:
            parts = [_parts(environment, one["kind"].lower(), one) for one in facts]
        title, body = parts[0]
        if len(parts) > 1:
            worst = "critical" if any(one["severity"] == "critical" for one in facts) else facts[0]["severity"]
            title = f"{len(parts)} alerts of {_about(delivery.alerts[0].transition) or 'rebalance-watch'}, {worst}"
            body = "\n\n".join(f"{head}\n{text}".rstrip() for head, text in parts)
        link = self._address if len(facts) > 1 else facts[0]["link"]
        return Message(
            key=delivery.key, title=title, body=body, summary=delivery.summary, link=link, alerts=tuple(facts)
        )

    def _facts(self, alert: Alert) -> dict[str, Any]:
        transition, of = msgspec.structs.asdict(alert.transition), alert.transition
        reach = self._reach(of)
        if not of.main_explanation:
            transition |= {"main_cause": of.sub_cause, "main_client_id": of.client_id}
            transition |= {"main_explanation": of.explanation}
        return transition | {
            "touches": {"groups": reach.groups, "queues": reach.queues} if reach is not None else None,
            "key": alert.key,
            "kind": alert.kind,
            "told_severity": alert.told_severity,
            "evidence": json.loads(alert.transition.evidence),
            "where": " ".join(part for part in (_about(of), of.subject) if part),
            "link": self._address + incident_link(alert.transition.incident_id),
        }

    def _try(self, path: Path) -> None:
        for name in NAMES:
            told = None if name == "opened" else "warning"
            sample = self._facts(msgspec.structs.replace(SAMPLE, told_severity=told))
            try:
                variables = _summary([sample]) | {"address": self._address} if name == "summary" else sample
                _parts(self._theirs, name, variables)
            except TEMPLATE_ERRORS as error:
                raise UserError(f"The alert template {path / name}.txt can't be used: {error}.") from None


def _about(transition: IncidentTransition) -> str:
    """The group, or the cluster; empty of what the alert process itself has found."""
    return transition.group or (f"cluster {transition.cluster}" if transition.cluster else "")


def _parts(environment: ImmutableSandboxedEnvironment, name: str, variables: Mapping[str, Any]) -> tuple[str, str]:
    title, _, body = environment.get_template(name).render(variables).strip().partition("\n")
    return "".join(one if one.isprintable() else " " for one in title).strip(), body.strip()


def _summary(facts: list[dict[str, Any]]) -> dict[str, Any]:
    alike: dict[tuple[str, str, str], Counter[str]] = {}
    for one in facts:
        alike.setdefault((one["kind"], one["severity"], one["code"]), Counter())[one["group"] or one["subject"]] += 1
    return {
        "alerts": facts,
        "groups": len({(one["cluster"], one["group"]) for one in facts}),
        "critical": sum(one["severity"] == "critical" for one in facts),
        "lines": [
            {"count": groups.total(), "kind": kind, "severity": severity, "code": code, "where": _some(groups)}
            for (kind, severity, code), groups in alike.items()
        ],
    }


def _some(groups: Counter[str]) -> str:
    named = ", ".join(group for group, _ in groups.most_common(_GROUPS_NAMED))
    more = len(groups) - _GROUPS_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _span(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s" if minutes else f"{seconds} s"


def _ours(name: str) -> str:
    return resources.files(__package__).joinpath("templates", f"{name}.txt").read_text("utf-8")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError(f"The alert template {path} can't be read: correct it, or remove it to have ours.") from None


SAMPLE = Alert(
    key="0123456789abcdef:1:sample",
    kind="OPENED",
    told_severity=None,
    transition=IncidentTransition(
        cluster="sample-cluster", group="sample-group", time=1_795_276_800_000, known_at=1_795_276_801_000, seq=1,
        cause="poll-1@1||1",
        incident_id="0123456789abcdef", code="ORDERED_QUEUE_STUCK", sub_cause="SUSPEND_LOOP", severity="critical",
        transition="OPENED", subject="Sample@broker-a:0", opened_at=1_795_276_740_000, topic="Sample",
        broker="broker-a", queue_id=0, client_id="sample-client", evidence='{"lag":12}',
        explanation="This is a sample alert: nothing is wrong.", first_step="Nothing.", parent=None,
    ),
)  # fmt: skip
"""What templates are tried with."""


def sample(now: int) -> Alert:
    """What `alert test` sends: each time another incident."""
    incident_id = f"test-{now}"
    transition = msgspec.structs.replace(SAMPLE.transition, incident_id=incident_id, time=now, opened_at=now)
    return msgspec.structs.replace(SAMPLE, key=f"{incident_id}:1", transition=transition)
