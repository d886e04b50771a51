"""Render alerts as messages with sandboxed Jinja templates, the built-in ones or the user's.

The first line of a template is the title. If a user's template fails on an alert, the built-in one is used, so that the
alert is delivered anyway.

No name of a group, topic or client mentions anybody or becomes markup. Anybody may name a consumer group
``<at user_id="all">``, which mentions everybody in Lark, ``<!channel>`` (Slack), ``@everyone`` (Discord), or
``[ok](http://…)`` (Markdown: Teams, DingTalk, Lark). A name is therefore changed as little as takes that meaning from
it in all of them, whichever channel the message is for: services change their markup, and Apprise has more than a
hundred. What a template itself says is not changed, so it may mention somebody.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import structlog
from jinja2 import ChoiceLoader, DictLoader, StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.rules.registry import advice_for
from streaming.base.errors import UserError
from streaming.base.language import ENGLISH, gettext, in_language, marked, ngettext
from streaming.base.place import Place
from streaming.base.terminal import command_line
from streaming.base.times import written
from streaming.queries.evidence import commands_from, evidence_items
from streaming.queries.incident_detail import reach_of
from streaming.queries.labels import duration, reason
from streaming.queries.results import IncidentReach
from streaming.queries.rule_text import advised, explained
from streaming.serve.alerting.alert import Alert, Delivery
from streaming.serve.links import incident_link
from streaming.tables import ReadModel

BROKEN = "\N{ZERO WIDTH SPACE}"
"""Stands after an @ that mentions nobody."""
_MENTION = re.compile(r"(?<![\w.-])@(?=[\w*])|@(?=everyone|here)")
"""An @ that begins a word, as none in ``10.0.0.5@orders-1`` and ``Orders@broker-a:3`` does; Discord takes these two
anywhere."""


def neutral(value: Any) -> Any:
    """Return a value in which no text has control characters, a mention or a link."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {name: neutral(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [neutral(one) for one in value]
    return value


def _text(text: str) -> str:
    line = text if text.isprintable() else "".join(one if one.isprintable() else " " for one in text)
    line = line.replace("<", "\N{FULLWIDTH LESS-THAN SIGN}").replace("](", "] (")
    return _MENTION.sub(f"@{BROKEN}", line) if "@" in line else line


Ask: TypeAlias = Callable[[IncidentTransition], IncidentReach | None]
"""Returns what a transition's incident affects; None if it is about one group, or unknown."""


def nothing(transition: IncidentTransition) -> IncidentReach | None:
    """Return None: the reach is unknown."""
    del transition
    return None


def asking(tables: Place) -> Ask:
    """Return a function that queries the tables; if that fails, messages are sent without the counts."""

    def ask(transition: IncidentTransition) -> IncidentReach | None:
        if transition.group or not transition.cluster:
            return None
        try:
            with ReadModel(tables) as model:
                return reach_of(model, transition.cluster, transition.subject, transition.opened_at)
        except Exception as error:  # noqa: BLE001  whatever it is, the alert is more important
            structlog.get_logger().warning("cannot determine what an incident affects", reason=str(error))
            return None

    return ask


TEMPLATE_ERRORS = (TemplateError, ArithmeticError, LookupError, TypeError, ValueError)
"""The errors that a template may raise, including those of its expressions."""
NAMES = ("opened", "escalated", "reminder", "resolved", "summary")
_GROUPS_NAMED = 3
"""The number of groups named in a line of a summary; the others are counted."""


class AlertMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to a channel. As JSON it is the body for a webhook."""

    key: str
    """The idempotency key: a receiver may drop a message with a key that it has already received."""
    title: str
    body: str
    summary: bool
    link: str
    alerts: tuple[dict[str, Any], ...]
    """Each with its own ``key``, its ``kind``, the transition's columns, and a ``link``; names are as they are."""


def sandbox(loader: ChoiceLoader | None = None) -> ImmutableSandboxedEnvironment:
    """Return a sandboxed environment for templates, which can only read the given values."""
    environment = ImmutableSandboxedEnvironment(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"time": written, "span": duration}
    environment.globals |= {"_": gettext, "ngettext": ngettext, "command_line": command_line}
    return environment


class Texts:
    """Renders messages."""

    def __init__(
        self, folder: str, address: str, reach: Ask = nothing, language_of: Callable[[str], str] = lambda _: ENGLISH
    ) -> None:
        """Read and test every template; the user's, in a folder, override the built-in ones.

        ``address`` is that of the dashboard. ``reach`` returns what a cluster's incident affects.

        Raises:
            UserError: a template is invalid.
        """
        self._address = address
        self._reach = reach
        self._language_of = language_of
        folder_of_ours = resources.files(__package__) / "templates"
        ours = DictLoader({name: (folder_of_ours / f"{name}.txt").read_text("utf-8") for name in NAMES})
        self._ours = sandbox(ChoiceLoader([ours]))
        self._theirs = self._ours
        if folder:
            path = Path(folder)
            if not path.is_dir():
                raise UserError(f"Alert template folder {path} does not exist: correct `templates`.")
            given = {name: _read(path / f"{name}.txt") for name in NAMES if (path / f"{name}.txt").is_file()}
            self._theirs = sandbox(ChoiceLoader([DictLoader(given), ours]))
            self._try(path)

    def message(self, delivery: Delivery) -> AlertMessage:
        """Render the message of a delivery in its channel's language; the same for every attempt."""
        with in_language(self._language_of(delivery.channel)):
            try:
                return self._message(self._theirs, delivery)
            except TEMPLATE_ERRORS as error:
                structlog.get_logger().warning(
                    "template failed, using the built-in one", reason=str(error), key=delivery.key
                )
                return self._message(self._ours, delivery)

    def _message(self, environment: ImmutableSandboxedEnvironment, delivery: Delivery) -> AlertMessage:
        variables = [self._variables(alert) for alert in delivery.alerts]
        texts = [neutral(alert) for alert in variables]
        if delivery.summary:
            parts = [_parts(environment, "summary", _summary(texts) | {"address": self._address})]
        else:
            parts = [_parts(environment, alert["kind"].lower(), alert) for alert in texts]
        title, body = parts[0]
        if len(parts) > 1:
            worst = (
                "critical" if any(alert["severity"] == "critical" for alert in variables) else variables[0]["severity"]
            )
            about = neutral(_about(delivery.alerts[0].transition)) or "rebalance-watch"
            title = gettext("{n} alerts for {about}, {severity}", n=len(parts), about=about, severity=gettext(worst))
            body = "\n\n".join(f"{head}\n{text}".rstrip() for head, text in parts)
        link = self._address if len(variables) > 1 else variables[0]["link"]
        return AlertMessage(
            key=delivery.key, title=title, body=body, summary=delivery.summary, link=link, alerts=tuple(variables)
        )

    def _variables(self, alert: Alert) -> dict[str, Any]:
        transition = alert.transition
        reach = self._reach(transition)
        row = _verdict(transition)
        return row | {
            "resolution": reason(transition.resolution) if transition.resolution else "",
            **dict.fromkeys(
                ("explanation", "main_explanation"), explained(row["explanation"], transition.code, row["sub_cause"])
            ),
            "first_step": advised(row["first_step"], transition.code, row["sub_cause"]),
            "facts": evidence_items(transition.code, row["evidence"], transition.time),
            "commands": [command.text for command in commands_from(row)],
            "touches": {"groups": reach.groups, "queues": reach.queues} if reach is not None else None,
            "key": alert.key,
            "kind": alert.kind,
            "notified_severity": alert.notified_severity,
            "where": " ".join(part for part in (_about(transition), transition.subject) if part),
            "link": self._address + incident_link(transition.incident_id),
        }

    def _try(self, path: Path) -> None:
        for name in NAMES:
            notified = None if name == "opened" else "warning"
            sample = neutral(self._variables(msgspec.structs.replace(SAMPLE, notified_severity=notified)))
            try:
                variables = _summary([sample]) | {"address": self._address} if name == "summary" else sample
                _parts(self._theirs, name, variables)
            except TEMPLATE_ERRORS as error:
                raise UserError(f"Invalid alert template {path / name}.txt: {error}.") from None


def _verdict(transition: IncidentTransition) -> dict[str, Any]:
    """Return a transition with cause, client, sentences and evidence of its main cause, as the lists of incidents.

    Of an earlier release, and where it is the main cause itself, they are its own.
    """
    row = msgspec.structs.asdict(transition) | {"evidence": json.loads(transition.evidence)}
    if row["main_explanation"] and row["main_cause"] != row["sub_cause"]:
        advice = advice_for(transition.code, row["main_cause"])
        row |= {"sub_cause": row["main_cause"], "client_id": row["main_client_id"], "evidence": {}}
        row |= {"explanation": row["main_explanation"], "first_step": advice.first_step if advice is not None else ""}
    return row | {"main_cause": row["sub_cause"], "main_client_id": row["client_id"]}


def _about(transition: IncidentTransition) -> str:
    """Return the affected group or cluster; empty for incidents of the alert process itself."""
    return transition.group or (gettext("cluster {cluster}", cluster=transition.cluster) if transition.cluster else "")


def _parts(environment: ImmutableSandboxedEnvironment, name: str, variables: Mapping[str, Any]) -> tuple[str, str]:
    title, _, body = environment.get_template(name).render(variables).strip().partition("\n")
    return "".join(one if one.isprintable() or one == BROKEN else " " for one in title).strip(), body.strip()


def _summary(variables: list[dict[str, Any]]) -> dict[str, Any]:
    alike: dict[tuple[str, str, str], Counter[str]] = {}
    for alert in variables:
        alike.setdefault((alert["kind"], alert["severity"], alert["code"]), Counter())[
            alert["group"] or alert["subject"]
        ] += 1
    return {
        "alerts": variables,
        "groups": len({(alert["cluster"], alert["group"]) for alert in variables}),
        "critical": sum(alert["severity"] == "critical" for alert in variables),
        "lines": [
            {"count": groups.total(), "kind": kind, "severity": severity, "code": code, "where": _some(groups)}
            for (kind, severity, code), groups in alike.items()
        ],
    }


def _some(groups: Counter[str]) -> str:
    named = ", ".join(group for group, _ in groups.most_common(_GROUPS_NAMED))
    more = len(groups) - _GROUPS_NAMED
    return gettext("{names} and {n} more", names=named, n=more) if more > 0 else named


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError(
            f"Cannot read the alert template {path}: correct it, or remove it to use the built-in one."
        ) from None


SAMPLE = Alert(
    key="0123456789abcdef:1:sample",
    kind="OPENED",
    notified_severity=None,
    transition=IncidentTransition(
        cluster="sample-cluster", group="sample-group", time=1_795_276_800_000, known_at=1_795_276_801_000, seq=1,
        cause="poll-1@1||1",
        incident_id="0123456789abcdef", code="ORDERED_QUEUE_STUCK", sub_cause="SUSPEND_LOOP", severity="critical",
        transition="OPENED", subject="Sample@broker-a:0", opened_at=1_795_276_740_000, topic="Sample",
        broker="broker-a", queue_id=0, client_id="sample-client", evidence='{"lag":12}',
        explanation=marked("This is a sample alert; there is no incident."),
        first_step=marked("No action is required."), parent=None,
    ),
)  # fmt: skip
"""The alert with which templates are tested."""


def sample(now: int) -> Alert:
    """Return the alert sent by `alert test`, about a new incident each time."""
    incident_id = f"test-{now}"
    transition = msgspec.structs.replace(SAMPLE.transition, incident_id=incident_id, time=now, opened_at=now)
    return msgspec.structs.replace(SAMPLE, key=f"{incident_id}:1", transition=transition)
