"""PagerDuty (Events API v2) and Opsgenie (Alert API): each incident is one of theirs, and ends with it.

Both know an incident by a key of our own: the same for its opening, its escalation and its end, in every attempt and
after a rebuild, which may change the incident's id. They escalate and remind by themselves.
"""

import hashlib
from typing import Any

import msgspec

from streaming.serve.alerting.channels.channel import HttpClient
from streaming.serve.alerting.config import OpsgenieConfig, PagerDutyConfig, literal
from streaming.serve.alerting.neutral import neutral
from streaming.serve.alerting.render import AlertMessage

_PRIORITY = {"critical": "P1", "warning": "P3", "info": "P5"}
_TITLE_CHARACTERS = {"pagerduty": 1024, "opsgenie": 130}
_DETAIL_CHARACTERS = 8_000
"""Of a value; Opsgenie takes 8,000 of all values together."""
_SOURCE = "rebalance-watch"


class _Pager:
    """What both have."""

    resend_ms = None
    _http: HttpClient

    def stand(self, message: AlertMessage, now: int) -> None:
        """Do nothing: what is open there stays open."""

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class PagerDuty(_Pager):
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


class Opsgenie(_Pager):
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
