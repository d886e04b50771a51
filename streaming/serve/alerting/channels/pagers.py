"""Services that keep one alert an incident: PagerDuty, Opsgenie and Prometheus Alertmanager (POST /api/v2/alerts).

An alert of Alertmanager is identified by its labels, which must be the same when it fires, continues and ends. They
therefore contain only constant attributes of the incident and the notified severity; when that rises, the former alert
ends as the new one fires. A firing alert has an end a few resends ahead, as in Prometheus: it ends by itself if its
sender stops.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from streaming.base.times import written
from streaming.serve.alerting.channels.channel import HttpChannel, HttpClient
from streaming.serve.alerting.config import AlertmanagerConfig, OpsgenieConfig, PagerDutyConfig, literal
from streaming.serve.alerting.render import AlertMessage, neutral

_RESENDS_AHEAD = 4
_MILLISECONDS_MIN = 1_000


class Alertmanager(HttpChannel):
    """An Alertmanager."""

    def __init__(self, config: AlertmanagerConfig) -> None:
        """Read the secrets.

        Raises:
            UserError: a secret is missing.
        """
        self.resend_ms = max(config.resend, _MILLISECONDS_MIN)
        self._end_ms = _RESENDS_AHEAD * self.resend_ms
        self._labels = config.labels
        self._http = HttpClient(config.url, "/api/v2/alerts", config.headers, config.timeout)

    def send(self, message: AlertMessage, now: int) -> None:
        """Post the current state of its incidents; of several alerts about one, the last counts."""
        incidents: dict[str, list[dict[str, Any]]] = {}
        for one in message.alerts:
            incidents.setdefault(one["incident_id"], []).append(one)
        alerts = [alert for same in incidents.values() for alert in self._alerts(same[0], same[-1], message, now)]
        self._http.post(msgspec.json.encode(alerts), message.key)

    def stand(self, message: AlertMessage, now: int) -> None:
        """Post the firing alerts again."""
        self.send(message, now)

    def _alerts(
        self, first: dict[str, Any], last: dict[str, Any], message: AlertMessage, now: int
    ) -> Iterator[dict[str, Any]]:
        before, over = first["notified_severity"], last["kind"] == "RESOLVED"
        severity = last["notified_severity"] if over else last["severity"]
        if before not in {None, severity}:
            yield self._alert(last, message, before, now, now)
        yield self._alert(last, message, severity, now, now if over else now + self._end_ms)

    def _alert(self, alert: dict[str, Any], message: AlertMessage, severity: str, now: int, end: int) -> dict[str, Any]:
        labels = {
            "alertname": alert["code"],
            "severity": severity,
            "cluster": alert["cluster"],
            "consumer_group": alert["group"],
            "topic": alert["topic"],
            "broker": alert["broker"],
            "queue_id": alert["queue_id"],
            "subject": alert["subject"],
            "incident_id": alert["incident_id"],
        }
        annotations = {
            "summary": f"{alert['code']}: {alert['where']}",
            "description": alert["main_explanation"],
            "first_step": alert["first_step"],
            "sub_cause": alert["sub_cause"],
            "main_cause": alert["main_cause"],
            "client_id": alert["main_client_id"],
            "evidence": msgspec.json.encode(alert["evidence"]).decode(),
            "idempotency_key": alert["key"],
            "message_key": message.key,
        }
        return {
            "labels": self._labels | {name: str(value) for name, value in labels.items() if value not in {None, ""}},
            "annotations": neutral(
                {name: str(value) for name, value in annotations.items() if value not in {None, ""}}
            ),
            "startsAt": written(min(alert["opened_at"], now)),  # a source's clock may be ahead of ours
            "endsAt": written(end),
            "generatorURL": alert["link"],
        }


_PRIORITY = {"critical": "P1", "warning": "P3", "info": "P5"}
_TITLE_CHARACTERS = {"pagerduty": 1024, "opsgenie": 130}
_DETAIL_CHARACTERS = 8_000
"""Maximum length of a value; Opsgenie takes 8,000 of all values together."""
_SOURCE = "rebalance-watch"


class PagerDuty(HttpChannel):
    """A service of PagerDuty."""

    def __init__(self, config: PagerDutyConfig) -> None:
        """Read the secrets.

        Raises:
            UserError: one is missing.
        """
        self._routing_key = config.routing_key.read()
        self._http = HttpClient(config.url, "", {}, config.timeout, [self._routing_key])

    def send(self, message: AlertMessage, now: int) -> None:  # noqa: ARG002  of every channel
        """Post an event for each incident of the message; a repeated one changes nothing there."""
        for alert in _last_of_each(message):
            self._http.post(msgspec.json.encode(self._event(alert)), alert["key"])

    def _event(self, alert: dict[str, Any]) -> dict[str, object]:
        event: dict[str, object] = {"routing_key": self._routing_key, "dedup_key": _incident_key(alert)}
        if alert["kind"] == "RESOLVED":
            return event | {"event_action": "resolve"}
        payload = {
            "severity": alert["severity"], "source": alert["cluster"] or _SOURCE,
            "component": alert["subject"], "group": alert["group"], "class": alert["code"],
            "custom_details": _details(alert),
        }  # fmt: skip
        link = {"href": alert["link"], "text": "Incident"}
        return event | {"event_action": "trigger", "client": _SOURCE, "links": [link],
                        "payload": neutral(payload) | {"summary": _title(alert, "pagerduty")}}  # fmt: skip


class Opsgenie(HttpChannel):
    """An integration of Opsgenie."""

    def __init__(self, config: OpsgenieConfig) -> None:
        """Read the secrets.

        Raises:
            UserError: one is missing.
        """
        key = config.api_key.read()
        headers = {"Authorization": literal(f"GenieKey {key}")}
        self._http = HttpClient(config.url, "/v2/alerts", headers, config.timeout, [key])

    def send(self, message: AlertMessage, now: int) -> None:  # noqa: ARG002  of every channel
        """Create or close an alert for each incident of the message; a repeated request changes nothing there."""
        for alert in _last_of_each(message):
            if alert["kind"] == "RESOLVED":
                closed = msgspec.json.encode({"source": _SOURCE, "note": alert["resolution"]})
                self._http.post(closed, alert["key"], {"identifierType": "alias"}, f"/{_incident_key(alert)}/close")
            else:
                self._http.post(msgspec.json.encode(self._alert(alert)), alert["key"])

    @staticmethod
    def _alert(incident: dict[str, Any]) -> dict[str, object]:
        texts = {
            "description": f"{incident['main_explanation']}\n{incident['first_step']}\n{incident['link']}",
            "entity": incident["group"] or incident["cluster"], "details": _details(incident),
        }  # fmt: skip
        alert: dict[str, object] = neutral(texts)
        return alert | {
            "alias": _incident_key(incident), "message": _title(incident, "opsgenie"),
            "priority": _PRIORITY[incident["severity"]], "source": _SOURCE, "tags": [incident["code"]],
        }  # fmt: skip


def _last_of_each(message: AlertMessage) -> list[dict[str, Any]]:
    """Return the alerts of a message; of several about one incident the last."""
    return list({_incident_key(alert): alert for alert in message.alerts}.values())


def _incident_key(alert: dict[str, Any]) -> str:
    """Return what identifies an incident there: its code and subject, of which one is open at a time."""
    names = [alert["cluster"], alert["group"], alert["code"], alert["subject"]]
    return hashlib.sha256(msgspec.json.encode(names)).hexdigest()


def _title(alert: dict[str, Any], service: str) -> str:
    return str(neutral(f"{alert['code']}: {alert['where']}"))[: _TITLE_CHARACTERS[service]]


def _details(alert: dict[str, Any]) -> dict[str, str]:
    said = {
        "sub_cause": alert["main_cause"], "explanation": alert["main_explanation"], "first_step": alert["first_step"],
        "topic": alert["topic"], "broker": alert["broker"], "queue_id": alert["queue_id"],
        "client": alert["main_client_id"], "page": alert["link"], "incident_id": alert["incident_id"],
    }  # fmt: skip
    return {name: str(value)[:_DETAIL_CHARACTERS] for name, value in said.items() if value not in {None, ""}}
