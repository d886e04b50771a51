"""Webhook, Alertmanager and Apprise, over real HTTP on the loopback."""

import msgspec
import pytest

from streaming.base.errors import UserError
from streaming.serve.alerting.channels import open_channel
from streaming.serve.alerting.channels.channel import ChannelError
from tests.support.alerting import MINUTE, NOW, config, message

IMGHDR = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise imports it where Python still has it


@pytest.fixture
def channel():
    opened = []

    def channel(**settings):
        opened.append(open_channel(config(channels={"ops": settings}).channels["ops"]))
        return opened[-1]

    yield channel
    for one in opened:
        one.close()


def test_a_webhook_gets_the_message_with_its_key_and_our_headers(server, channel, monkeypatch):
    monkeypatch.setenv("ALERTS_TEST_TOKEN", "Bearer abc")
    hook = channel(kind="webhook", url=f"{server.url}/a?b=c", headers={"Authorization": {"env": "ALERTS_TEST_TOKEN"}})
    hook.send(message(), NOW)
    [(path, headers, body)] = server.requests
    assert path == "/a?b=c"
    assert (headers["Idempotency-Key"], headers["Authorization"]) == ("i1:1:ops", "Bearer abc")
    assert (body["key"], body["title"]) == ("i1:1:ops", "CRITICAL LAG_GROWTH: orders Orders@b:0")
    [alert] = body["alerts"]
    assert (alert["kind"], alert["incident_id"], alert["evidence"]) == ("OPENED", "i1", {"lag": 7})
    assert alert["link"] == "http://watch/incident/i1"


def test_a_template_renders_the_json(server, channel, tmp_path):
    file = tmp_path / "hook.json"
    file.write_text('{"msgtype": "text", "text": {{ (message.title ~ "\\n" ~ message.body) | tojson }}}')
    channel(kind="webhook", url=server.url, template=str(file)).send(message(subject='"quoted"'), NOW)
    [(_, _, body)] = server.requests
    assert body["msgtype"] == "text"
    assert body["text"].startswith('CRITICAL LAG_GROWTH: orders "quoted"\nwhy')


@pytest.mark.parametrize(
    ("text", "why"), [("{{ message.title }}", "Expecting value"), ("{{ message.x }}", "has no attribute 'x'")]
)
def test_a_template_that_renders_no_json_is_refused_at_the_start(channel, tmp_path, text, why):
    file = tmp_path / "hook.json"
    file.write_text(text)
    with pytest.raises(Exception, match=rf"Invalid webhook template \S+: .*{why}"):
        channel(kind="webhook", url="http://127.0.0.1:1", template=str(file))


@pytest.mark.parametrize(("status", "rejected"), [(400, True), (422, True), (401, False), (429, False), (503, False)])
def test_a_channel_error_has_the_reason_but_not_the_address(server, channel, status, rejected):
    server.status = status
    with pytest.raises(ChannelError, match=f"^HTTP {status} no such thing at") as caught:
        channel(kind="webhook", url=f"{server.url}/secret").send(message(), NOW)
    assert caught.value.rejected is rejected
    assert "secret" not in str(caught.value)


def test_a_channel_error_has_no_secret_that_the_endpoint_repeats(server, channel, monkeypatch):
    monkeypatch.setenv("ALERTS_TEST_TOKEN", "Bearer s3cr3t-0f-the-test")
    server.status = 401
    server.answer = lambda request: f"{request.path} with {request.headers['Authorization']} is not known"
    hook = channel(
        kind="webhook",
        url=server.url.replace("//", "//user:passw0rd@") + "/services/T0AB/xyzzy?key=abcdef",
        headers={"Authorization": {"env": "ALERTS_TEST_TOKEN"}},
    )
    with pytest.raises(ChannelError, match=r"^HTTP 401 ….*is not known$") as caught:
        hook.send(message(), NOW)
    for secret in ("T0AB", "xyzzy", "abcdef", "s3cr3t", "passw0rd", "the-test"):
        assert secret not in str(caught.value)


def test_an_attempt_without_a_response_has_failed(channel):
    with pytest.raises(ChannelError, match=r"^no response \(ConnectError\)$") as caught:
        channel(kind="webhook", url="http://127.0.0.1:1/secret").send(message(), NOW)
    assert not caught.value.rejected


def test_an_alertmanager_gets_the_same_labels_throughout_an_incident(server, channel):
    manager = channel(kind="alertmanager", url=server.url, labels={"team": "payments"})
    manager.send(message(sub_cause="X", client_id="A"), NOW)
    manager.stand(message(seq=3, sub_cause="Y", client_id="B", notified="critical"), NOW + MINUTE)
    manager.send(message("RESOLVED", notified="critical", seq=4, severity="warning"), NOW + 2 * MINUTE)
    assert {path for path, *_ in server.requests} == {"/api/v2/alerts"}
    [opened], [again], [over] = (body for *_, body in server.requests)
    assert opened["labels"] == again["labels"] == over["labels"] == {
        "alertname": "LAG_GROWTH", "severity": "critical", "cluster": "c", "consumer_group": "orders",
        "topic": "Orders", "broker": "b", "queue_id": "0", "subject": "Orders@b:0", "incident_id": "i1",
        "team": "payments",
    }  # fmt: skip
    assert opened["startsAt"] == over["startsAt"] == "2026-11-21T16:53:20.000Z"
    assert (opened["endsAt"], again["endsAt"]) == ("2026-11-21T16:57:20.000Z", "2026-11-21T16:58:20.000Z")
    assert over["endsAt"] == "2026-11-21T16:55:20.000Z"
    assert opened["annotations"]["idempotency_key"] == "i1:1:ops"
    assert opened["generatorURL"] == "http://watch/incident/i1"


def test_an_escalation_ends_the_former_alert_and_fires_a_new_one(server, channel):
    channel(kind="alertmanager", url=server.url).send(message("ESCALATED", notified="warning"), NOW + MINUTE)
    [(_, _, [before, after])] = server.requests
    assert (before["labels"]["severity"], before["endsAt"]) == ("warning", "2026-11-21T16:54:20.000Z")
    assert (after["labels"]["severity"], after["endsAt"]) == ("critical", "2026-11-21T16:58:20.000Z")


def test_an_alertmanager_gets_the_last_transition_of_an_incident(server, channel):
    life = [("OPENED", None, "warning"), ("ESCALATED", "warning", "critical"), ("RESOLVED", "critical", "critical")]
    for number in (2, 3):
        made = [message(kind, notified, severity=severity).alerts[0] for kind, notified, severity in life[:number]]
        update = msgspec.structs.replace(message(), alerts=tuple(made))
        channel(kind="alertmanager", url=server.url).send(update, NOW + MINUTE)
    ends = [[(one["labels"]["severity"], one["endsAt"][14:16]) for one in body] for *_, body in server.requests]
    assert ends == [[("critical", "58")], [("critical", "54")]]


HOSTILE = "<!here> @everyone @ops [ok](http://e)"
HARMLESS = "\uff1c!here> @\u200beveryone @\u200bops [ok] (http://e)"


def test_a_name_is_exact_in_labels_and_mentions_nobody_in_texts(server, channel):
    channel(kind="alertmanager", url=server.url).send(message(group=HOSTILE), NOW)
    channel(kind="webhook", url=server.url).send(message(group=HOSTILE), NOW)
    (_, _, [alert]), (_, _, body) = server.requests
    assert alert["labels"]["consumer_group"] == body["alerts"][0]["group"] == HOSTILE
    assert alert["annotations"]["summary"] == f"LAG_GROWTH: {HARMLESS} Orders@b:0"
    assert body["title"] == f"CRITICAL LAG_GROWTH: {HARMLESS} Orders@b:0"


@IMGHDR
def test_a_name_mentions_nobody_in_what_apprise_sends(server, channel, tmp_path):
    channel(kind="apprise", urls=addresses(tmp_path / "urls", server, "/chat")).send(message(group=HOSTILE), NOW)
    [(_, _, body)] = server.requests
    assert body["title"] == f"CRITICAL LAG_GROWTH: {HARMLESS} Orders@b:0"


@pytest.mark.parametrize("kind", ["webhook", "alertmanager"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("X-A", value) for value in ("a\r\nX-B: b", "a\nb", "a\x00", "ü")],
        *[(name, "b") for name in ("X-A\r\nX-B", "X A", "")],
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_at_the_start(channel, kind, name, value):
    with pytest.raises(UserError, match=r"^Invalid header .* of an alert channel: write its name and") as caught:
        channel(kind=kind, url="http://127.0.0.1:1", headers={name: value})
    assert str(caught.value).isprintable()
    assert repr(value) not in str(caught.value)


def test_a_header_from_a_file_of_two_lines_is_refused_at_the_start(channel, tmp_path):
    file = tmp_path / "token"
    file.write_text("Bearer abc\nX-Other: x\n")
    with pytest.raises(UserError, match="a file or variable must have the value alone"):
        channel(kind="webhook", url="http://127.0.0.1:1", headers={"Authorization": {"file": str(file)}})


def test_an_incident_dated_by_a_clock_ahead_of_ours_starts_now(server, channel):
    channel(kind="alertmanager", url=server.url).send(message("RESOLVED", notified="critical"), NOW - MINUTE)
    [(_, _, [over])] = server.requests
    assert over["startsAt"] == over["endsAt"]


@IMGHDR
def test_apprise_sends_and_its_errors_do_not_contain_the_address(server, channel, tmp_path, capfd):
    file = tmp_path / "urls"
    file.write_text(f"json://user:secret@{server.url.removeprefix('http://')}/\n")
    ops = channel(kind="apprise", urls={"file": str(file)})
    ops.send(message(), NOW)
    [(_, _, body)] = server.requests
    assert body["title"] == "CRITICAL LAG_GROWTH: orders Orders@b:0"
    assert body["message"].endswith("[i1:1:ops]")
    assert body["type"] == "failure"
    server.status = 500
    with pytest.raises(ChannelError) as caught:
        ops.send(message("RESOLVED"), NOW)
    assert server.requests[-1][2]["type"] == "success"
    assert "secret" not in str(caught.value) + "".join(capfd.readouterr())


def addresses(file, server, *paths):
    """Write a file with the server's Apprise addresses."""
    host = server.url.removeprefix("http://")
    file.write_text("".join(f"json://user:secret@{host}{path}\n" for path in paths))
    return {"file": str(file)}


def taken(server):
    """Return the paths of the requests since the last call."""
    paths = [path for path, *_ in server.requests]
    server.requests.clear()
    return paths


@IMGHDR
def test_an_apprise_address_that_accepted_a_message_gets_no_retry(server, channel, tmp_path):
    ops = channel(kind="apprise", urls=addresses(tmp_path / "urls", server, "/chat", "/mail", "/pager"))
    server.broken = {"/mail", "/pager"}
    with pytest.raises(ChannelError, match=r"^2 of 3 Apprise addresses failed: JSON$"):
        ops.send(message(), NOW)
    assert taken(server) == ["/chat", "/mail", "/pager"]
    server.broken = {"/mail"}
    with pytest.raises(ChannelError, match=r"^1 of 3 Apprise addresses failed: JSON$") as caught:
        ops.send(message(), NOW)
    assert taken(server) == ["/mail", "/pager"]
    assert not caught.value.rejected
    with pytest.raises(ChannelError):
        ops.send(message(incident="i2"), NOW)  # another message: all of them again
    assert taken(server) == ["/chat", "/mail", "/pager"]
    server.broken = set()
    ops.send(message(), NOW)
    assert taken(server) == ["/mail"]
    ops.send(message(), NOW)  # all had it, so it is forgotten
    assert taken(server) == ["/chat", "/mail", "/pager"]


@IMGHDR
def test_the_record_of_partly_delivered_apprise_messages_is_bounded(server, channel, tmp_path, monkeypatch):
    monkeypatch.setattr("streaming.serve.alerting.channels.channel._UNFINISHED_MAX", 2)
    ops = channel(kind="apprise", urls=addresses(tmp_path / "urls", server, "/chat", "/mail"))
    server.broken = {"/mail"}
    for incident in ("i1", "i2", "i3"):
        with pytest.raises(ChannelError):
            ops.send(message(incident=incident), NOW)
    taken(server)
    server.broken = set()
    for incident in ("i3", "i2", "i1"):
        ops.send(message(incident=incident), NOW)
    assert taken(server) == ["/mail", "/mail", "/chat", "/mail"]
