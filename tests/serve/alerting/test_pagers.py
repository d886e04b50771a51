"""PagerDuty and Opsgenie: an incident is one of theirs, from its opening to its end; the recipes of the README."""

import re
from pathlib import Path

import pytest

from streaming.serve.alerting.channels import open_channel
from streaming.serve.alerting.channels.channel import ChannelError
from streaming.serve.alerting.config import load_alerts
from tests.support.alerting import NOW, message

README = Path(__file__).parents[3] / "streaming/serve/alerting/README.md"
PATHS = {"pagerduty": "/v2/enqueue", "opsgenie": "/v2/alerts"}


@pytest.fixture
def channel(server, tmp_path, monkeypatch):
    """Return a function that opens a channel of the README's recipes at a server on this machine."""
    recipes = README.read_text("utf-8").partition("## PagerDuty and Opsgenie")[2]
    text = re.search(r"```toml\n(.*?)```", recipes, re.DOTALL)[1]
    for kind, url in (("pagerduty", f"{server.url}/v2/enqueue"), ("opsgenie", server.url)):
        text = text.replace(f'kind = "{kind}"', f'kind = "{kind}"\nurl = "{url}"')
        monkeypatch.setenv(f"{kind.upper()}_KEY", f"secret-{kind}")
    file = tmp_path / "alerts.toml"
    file.write_text(text)
    config = load_alerts(str(file))
    server.answer = lambda _: "{}"
    opened = []

    def channel(name):
        opened.append(open_channel(config.channels[name]))
        return opened[-1]

    yield channel
    for one in opened:
        one.close()


def test_pagerduty_gets_an_event_with_what_to_do(server, channel):
    channel("pagerduty").send(message(severity="critical"), NOW)

    [(path, headers, event)] = server.requests
    assert path == PATHS["pagerduty"]
    assert headers["Idempotency-Key"] == "i1:1:ops"
    assert (event["routing_key"], event["event_action"]) == ("secret-pagerduty", "trigger")
    payload = event["payload"]
    assert (payload["summary"], payload["severity"]) == ("LAG_GROWTH: orders Orders@b:0", "critical")
    assert (payload["group"], payload["class"]) == ("orders", "LAG_GROWTH")
    assert payload["custom_details"]["first_step"]
    assert event["links"] == [{"href": "http://watch/incident/i1", "text": "Incident"}]


def test_opsgenie_gets_an_alert_with_what_to_do(server, channel):
    channel("opsgenie").send(message(severity="critical"), NOW)

    [(path, headers, alert)] = server.requests
    assert path == PATHS["opsgenie"]
    assert headers["Authorization"] == "GenieKey secret-opsgenie"
    assert (alert["message"], alert["priority"]) == ("LAG_GROWTH: orders Orders@b:0", "P1")
    assert "http://watch/incident/i1" in alert["description"]
    assert all(isinstance(value, str) for value in alert["details"].values())


@pytest.mark.parametrize("name", PATHS)
def test_the_end_is_of_the_same_incident_also_after_a_rebuild(server, channel, name):
    to = channel(name)
    to.send(message(), NOW)
    to.send(message("ESCALATED", severity="critical"), NOW)
    to.send(message("RESOLVED", incident_id="i1-rebuilt"), NOW)
    to.send(message(subject="Orders@b:1"), NOW)

    key = {"pagerduty": "dedup_key", "opsgenie": "alias"}[name]
    opened, escalated, (path, _, ended), other = server.requests
    assert opened[2][key] == escalated[2][key] != other[2][key]
    if name == "pagerduty":
        assert (ended["event_action"], ended[key]) == ("resolve", opened[2][key])
    else:
        assert path == f"/v2/alerts/{opened[2][key]}/close?identifierType=alias"


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize(("status", "rejected"), [(400, True), (429, False), (500, False)])
def test_a_refusal_says_why_and_not_the_key(server, channel, name, status, rejected):
    server.status = status
    server.answer = lambda _: f"bad secret-{name}"
    with pytest.raises(ChannelError) as refused:
        channel(name).send(message(), NOW)
    assert refused.value.rejected == rejected
    assert str(refused.value).startswith(f"HTTP {status} bad")
    assert f"secret-{name}" not in str(refused.value)


@pytest.mark.parametrize("name", PATHS)
def test_a_long_name_is_cut_and_mentions_nobody(server, channel, name):
    channel(name).send(message(subject="@everyone " + "x" * 2_000), NOW)

    [(_, _, body)] = server.requests
    title = body["payload"]["summary"] if name == "pagerduty" else body["message"]
    assert len(title) <= {"pagerduty": 1024, "opsgenie": 130}[name]
    assert "@everyone" not in title
