"""DingTalk, WeCom, Lark and Slack: the recipes of the README, sent to a server that answers as these services do."""

import base64
import hashlib
import hmac
import json
import re
import tomllib
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from streaming.serve.alerting.channels import open_channel
from streaming.serve.alerting.channels.channel import ChannelError
from streaming.serve.alerting.config import load_alerts
from tests.support.alerting import NOW, message

README = Path(__file__).parents[3] / "streaming/serve/alerting/README.md"
SECRET = "SEC-of-the-test"
ACCEPTED = {
    "dingtalk": {"errcode": 0, "errmsg": "ok"},
    "wecom": {"errcode": 0, "errmsg": "ok"},
    "lark": {"code": 0, "msg": "success", "data": {}},
    "slack": None,
}
REFUSED = {
    "dingtalk": ({"errcode": 310000, "errmsg": "keywords not in content"}, "310000 keywords not in content"),
    "wecom": ({"errcode": 45009, "errmsg": "api freq out of limit"}, "45009 api freq out of limit"),
    "lark": ({"code": 19021, "msg": "sign match fail"}, "19021 sign match fail"),
}


def answering(answer):
    """Answer as the services do: HTTP 200, and in the JSON whether the message was accepted."""
    return lambda _: "ok" if answer is None else json.dumps(answer)


@pytest.fixture
def channel(server, tmp_path, monkeypatch):
    """Return a function that opens a channel of the README's recipes."""
    recipes = README.read_text("utf-8").partition("## DingTalk, WeCom, Lark and Slack")[2]
    file = tmp_path / "alerts.toml"
    file.write_text(re.search(r"```toml\n(.*?)```", recipes, re.DOTALL)[1])
    for name in tomllib.loads(file.read_text())["channels"]:
        monkeypatch.setenv(f"{name.upper()}_URL", f"http://127.0.0.1:{server.server_port}/robot?access_token=t0ken")
        monkeypatch.setenv(f"{name.upper()}_SECRET", SECRET)
    config = load_alerts(str(file))
    assert set(config.channels) == set(ACCEPTED)
    opened = []

    def channel(name, **changes):
        server.answer = answering(ACCEPTED[name])
        opened.append(open_channel(config.channels[name].model_copy(update=changes)))
        return opened[-1]

    yield channel
    for one in opened:
        one.close()


def text_in(name, body):
    return {
        "dingtalk": lambda: body["text"]["content"] if body["msgtype"] == "text" else None,
        "wecom": lambda: body["text"]["content"] if body["msgtype"] == "text" else None,
        "lark": lambda: body["content"]["text"] if body["msg_type"] == "text" else None,
        "slack": lambda: body["text"],
    }[name]()


@pytest.mark.parametrize("name", ACCEPTED)
def test_each_recipe_sends_the_text_in_the_form_of_its_service(server, channel, name):
    channel(name).send(message(), NOW)
    [(_, _, body)] = server.requests
    assert text_in(name, body).startswith("CRITICAL LAG_GROWTH: orders Orders@b:0\nwhy\n")
    assert text_in(name, body).endswith("http://watch/incident/i1")


HOSTILE = '<at user_id="all"></at><!channel>&lt;@everyone [ok](http://e)\r\nFirst step: run it'
MARKUP = re.compile(r"<|\]\(|@everyone|(?<!\w)@\w")


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_name_mentions_nobody_and_is_no_markup(server, channel, name):
    channel(name).send(
        message(group=HOSTILE, subject=HOSTILE, client_id=HOSTILE, evidence=json.dumps({"a": HOSTILE})), NOW
    )
    [(_, _, body)] = server.requests
    text = text_in(name, body)
    assert "at user_id=" in text
    assert MARKUP.findall(text) == []
    assert [line for line in text.splitlines() if line.startswith("First step")] == ["First step: what"]


def test_a_template_may_mention_somebody_but_the_names_in_it_may_not(server, channel, tmp_path):
    file = tmp_path / "lark.json"
    file.write_text(
        '{"msg_type": "text", "content": {"text": {{ ("<at user_id=\\"all\\"></at> " ~ message.title ~ message.body'
        " ~ message.alerts[0].group) | tojson }}}}"
    )
    channel("lark", template=str(file)).send(message(group=HOSTILE), NOW)
    [(_, _, body)] = server.requests
    text = text_in("lark", body)
    assert text.startswith('<at user_id="all"></at> ')
    assert MARKUP.findall(text.removeprefix('<at user_id="all"></at> ')) == []


def test_dingtalk_finds_a_signature_in_the_address(server, channel):
    channel("dingtalk").send(message(), NOW)
    [(path, _, _)] = server.requests
    query = {name: value for name, [value] in parse_qs(urlsplit(path).query).items()}
    assert (query["access_token"], query["timestamp"]) == ("t0ken", str(NOW))
    expected = hmac.new(SECRET.encode(), f"{NOW}\n{SECRET}".encode(), hashlib.sha256).digest()
    assert base64.b64decode(query["sign"]) == expected


def test_lark_finds_a_signature_in_the_body(server, channel):
    channel("lark").send(message(), NOW)
    [(_, _, body)] = server.requests
    expected = hmac.new(f"{NOW // 1000}\n{SECRET}".encode(), b"", hashlib.sha256).digest()
    assert (body["timestamp"], base64.b64decode(body["sign"])) == (str(NOW // 1000), expected)


def test_a_robot_without_a_secret_gets_no_signature(server, channel):
    for name in ("dingtalk", "lark"):
        channel(name, sign=None).send(message(), NOW)
    assert [path for path, _, _ in server.requests] == ["/robot?access_token=t0ken"] * 2
    assert "sign" not in server.requests[1][2]


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_with_status_200_is_an_error_that_is_retried(server, channel, name):
    robot = channel(name)
    answer, words = REFUSED[name]
    server.answer = answering(answer)
    with pytest.raises(ChannelError, match=f"^{name} {words}$") as caught:
        robot.send(message(), NOW)
    assert not caught.value.rejected


def test_a_message_that_is_rejected_for_its_content_is_given_up(server, channel):
    robot = channel("wecom")
    server.answer = answering({"errcode": 40058, "errmsg": "invalid Request Parameter"})
    with pytest.raises(ChannelError, match=r"^wecom 40058") as caught:
        robot.send(message(), NOW)
    assert caught.value.rejected


@pytest.mark.parametrize("answer", ["ok", '{"hello": "world"}', "[]", '{"errcode": []}', "[" * 20_000])
def test_an_answer_without_a_code_is_no_delivery(server, channel, answer):
    robot = channel("dingtalk")
    server.answer = lambda _: answer
    with pytest.raises(ChannelError, match=r"answered without a code: is this the address of its robot\?"):
        robot.send(message(), NOW)


def test_an_error_does_not_repeat_the_address(server, channel):
    robot = channel("dingtalk")
    server.answer = answering({"errcode": 300001, "errmsg": "token t0ken of /robot?access_token=t0ken is not exist"})
    with pytest.raises(ChannelError) as caught:
        robot.send(message(), NOW)
    assert "access_token=t0ken" not in str(caught.value)


def test_a_text_that_is_too_long_keeps_its_link(server, channel):
    long = msgspec.structs.replace(message(), body="消息堆积 " * 1_000, link="http://watch/incident/i1")
    channel("wecom").send(long, NOW)
    [(_, _, body)] = server.requests
    text = body["text"]["content"]
    assert 2_040 < len(text.encode()) <= 2_048
    assert text.endswith("…\nhttp://watch/incident/i1")


def test_slack_gets_its_three_characters_escaped(server, channel):
    channel("slack").send(message(subject="<a & b>"), NOW)
    [(_, _, body)] = server.requests
    assert "orders \uff1ca &amp; b&gt;\n" in body["text"]


def test_a_template_replaces_the_json_and_is_signed(server, channel, tmp_path):
    file = tmp_path / "at.json"
    example = re.search(r"`(\{\"msgtype\".*?\}\})`", README.read_text("utf-8"))[1]
    file.write_text(example)
    channel("dingtalk", template=str(file)).send(message(), NOW)
    [(path, _, body)] = server.requests
    assert body["at"] == {"isAtAll": True}
    assert body["text"]["content"].startswith("[RocketMQ] CRITICAL LAG_GROWTH")
    assert "sign=" in path
