"""Prometheus Alertmanager, version 2 of its API (POST /api/v2/alerts).

An alert is identified by its labels, which must be the same when it fires, continues and ends. They therefore contain
only constant attributes of the incident and the notified severity; when that rises, the former alert ends as the new
one fires. A firing alert has an end a few resends ahead, as in Prometheus: it ends by itself if its sender stops.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from streaming.base.times import written
from streaming.serve.alerting.channels.channel import HttpClient
from streaming.serve.alerting.config import AlertmanagerConfig
from streaming.serve.alerting.neutral import neutral
from streaming.serve.alerting.render import AlertMessage

_RESENDS_AHEAD = 4
_MILLISECONDS_MIN = 1_000


class Alertmanager:
    """An Alertmanager."""

    def __init__(self, config: AlertmanagerConfig) -> None:
        """Read the secrets.

        Raises:
            UserError: a secret is missing.
        """
        self.resend_ms: int | None = max(config.resend, _MILLISECONDS_MIN)
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

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

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
