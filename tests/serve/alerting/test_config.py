"""The alerts file: its defaults, and one sentence for each error in it."""

import re
import tomllib
from pathlib import Path

import pytest

from streaming.base.errors import UserError
from streaming.base.settings import conf_file
from streaming.serve.alerting.channels import open_channel
from streaming.serve.alerting.config import load_alerts
from streaming.serve.alerting.render import Texts
from streaming.serve.alerting.route import targets
from tests.support.alerting import NOW, transition

IMGHDR = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise imports it where Python still has it
ROUTE = '[[routes]]\nchannels = ["ops"]\n'
HOOK = '[channels.ops]\nkind = "webhook"\nurl = "http://127.0.0.1:1/x"\n'


@pytest.fixture
def load(tmp_path):
    def load(text):
        file = tmp_path / "alerts.toml"
        file.write_text(text)
        return load_alerts(str(file))

    return load


def test_the_defaults_send_no_alerts_and_a_users_file_overrides_them(load):
    assert (load_alerts("").routes, load_alerts("").channels) == ((), {})
    mine = load('group_wait = "5s"\n' + ROUTE + "[limit]\nmessages = 3\n" + HOOK)
    assert (mine.group_wait, mine.limit.messages, mine.limit.span) == (5_000, 3, 600_000)
    assert mine.at_once == ("ORDERED_QUEUE_STUCK", "JOB_SILENT")


@pytest.mark.parametrize("code", ["BROKER_UNREACHABLE", "DUPLICATE_CONSUMPTION", "LOCK_*"])
def test_a_route_may_name_the_code_of_any_rule(load, code):
    assert load(ROUTE + f'codes = ["{code}"]\n' + HOOK).routes[0].codes == (code,)


def test_the_example_in_the_file_is_valid(load, monkeypatch):
    lines = conf_file("alerts.toml").read_text().splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("# Routes are evaluated"))
    example = "\n".join(line.removeprefix("# ").removeprefix("#") for line in lines[begin + 2 :])
    settings = load(example)
    assert set(settings.channels) == {"pager", "ops", "chat", "night", "mail"}
    stuck = transition(code="ORDERED_QUEUE_STUCK", group="pay-1")
    assert [(one.channel, one.wait_ms) for one in targets(settings, stuck, NOW)] == [("pager", 0), ("ops", 0)]
    assert [one.channel for one in targets(settings, transition(severity="warning"), NOW)] == ["chat"]
    assert targets(settings, transition(severity="info"), NOW) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("poll = ", r"is not valid TOML"),
        ('poll = "1 hour"', r"poll: Invalid duration '1 hour'. Use 90s, 30m, 2h or 1d"),
        ("group_wait = 3", r"group_wait: Invalid duration '3'"),
        ("colour = 1", r"unknown setting colour: use poll, group_wait, remind_after"),
        ('[[route]]\nchannels = ["ops"]\n', r"unknown setting route: did you mean routes\?"),
        (ROUTE + 'group = "pay-*"\n' + HOOK, r"unknown setting routes\.1\.group: did you mean groups\?"),
        (HOOK + "heders = {}\n", r"unknown setting channels\.ops\.heders: did you mean headers\?"),
        ('[channels.ops]\nkind = "webhook"\nurl = {envv = "A"}', r"channels\.ops\.url\.envv: did you mean env\?"),
        (ROUTE.replace("ops", "opps") + HOOK, r"channel 'opps', which is not in \[channels\]: did you mean ops\?"),
        (ROUTE + 'codes = ["LAG_GROWHT"]\n' + HOOK, r"no incident code matches 'LAG_GROWHT': did you mean LAG_GROWTH"),
        (ROUTE, r"route 1 refers to channel 'ops', which is not in \[channels\]"),
        (ROUTE + 'codes = ["STUCK"]\n' + HOOK, r"routes\.1\.codes\.1: no incident code matches 'STUCK'"),
        (ROUTE + 'severity = "bad"\n' + HOOK, r"routes\.1\.severity: should be 'info', 'warning' or 'critical'"),
        (ROUTE + 'hours = "9-18"\n' + HOOK, r"routes\.1\.hours\.1: invalid hours '9-18': use 09:00-18:00"),
        (ROUTE + 'days = ["monday"]\n' + HOOK, r"routes\.1\.days\.1: invalid day 'monday': use mon, tue"),
        (ROUTE + 'time_zone = "Shanghai"\n' + HOOK, r"routes\.1\.time_zone: Unknown time zone 'Shanghai'"),
        (HOOK + 'service = "dingtalks"\n', r"channels\.ops\.service: should be .*: did you mean dingtalk\?"),
        (HOOK + 'service = "wecom"\nsign = "secret"\n', r"channels\.ops: only dingtalk, lark and feishu verify a sig"),
        ('[channels.ops]\nkind = "mail"', r"channels\.ops: unknown kind 'mail': use alertmanager, webhook, .*"),
        ('[channels.ops]\nkind = "webhook"', r"channels\.ops\.url: is missing"),
        ('[channels.ops]\nkind = "webhook"\nurl = {env = "A", file = "b"}', r"use a value, \{env = \"NAME\"\}"),
        ('[channels.ops]\nkind = "apprise"\nurls = "slack://secret"', r"Apprise URLs contain passwords"),
        ('[channels."o p"]\nkind = "webhook"\nurl = "x"', r"channels\.o p: .*"),
        ("[limit]\nmessages = 0", r"limit\.messages: .*greater than or equal to 1"),
    ],
)  # fmt: skip
def test_an_invalid_file_is_one_sentence_without_secrets(load, text, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        load(text)
    said = str(caught.value)
    assert re.fullmatch(r"(Invalid|The) alerts file \S+alerts\.toml(:| is not valid TOML:) [^\n]+[.?]", said)
    assert "secret" not in said


def test_a_missing_alerts_file_is_a_user_error():
    with pytest.raises(UserError, match=r"The alerts file nowhere\.toml does not exist: correct alerts\.file\."):
        load_alerts("nowhere.toml")


@pytest.mark.parametrize(
    ("channel", "sentence"),
    [
        ('kind = "webhook"\nurl = {env = "ALERTS_TEST_URL"}', "the environment variable ALERTS_TEST_URL"),
        ('kind = "apprise"\nurls = {file = "/nowhere/urls"}', "the file /nowhere/urls"),
        ('kind = "webhook"\nurl = "ftp://secret@host"', "Invalid address of an alert channel"),
        ('kind = "webhook"\nurl = "http://h"\nheaders = {X = {env = "ALERTS_TEST_NONE"}}', "ALERTS_TEST_NONE"),
        ('kind = "webhook"\nurl = "http://h"\nheaders = {X = "sécret"}', "Invalid header 'X' of an alert channel"),
        ('kind = "webhook"\nurl = "http://h"\ntemplate = "/nowhere/t"', "Cannot read the webhook template /nowhere/t"),
    ],
)
def test_a_channel_that_fails_to_open_is_one_sentence_without_secrets(load, channel, sentence):
    settings = load(f"[channels.ops]\n{channel}")
    with pytest.raises(UserError, match=sentence) as caught:
        open_channel(settings.channels["ops"])
    assert "secret" not in str(caught.value)


def test_paths_are_relative_to_the_file_that_names_them(load, tmp_path):
    (tmp_path / "token").write_text("abc\n")
    settings = load(HOOK + 'headers = {X = {file = "token"}}\ntemplate = "hook.json"').channels["ops"]
    assert settings.headers["X"].read() == "abc"
    assert settings.template == str(tmp_path / "hook.json")
    assert load('templates = "texts"').templates == str(tmp_path / "texts")


@IMGHDR
def test_an_address_that_apprise_does_not_know_is_not_shown(load, monkeypatch):
    monkeypatch.setenv("ALERTS_TEST_URLS", "json://127.0.0.1 nothing://secret")
    settings = load('[channels.ops]\nkind = "apprise"\nurls = {env = "ALERTS_TEST_URLS"}')
    with pytest.raises(UserError, match=r"^Address 2 of an alert channel is not a valid Apprise URL") as caught:
        open_channel(settings.channels["ops"])
    assert "secret" not in str(caught.value)


def test_a_secret_is_in_no_repr(load):
    settings = load('[channels.ops]\nkind = "webhook"\nurl = "http://host/secret"\nheaders = {X = "secret"}')
    assert "secret" not in repr(settings)


def test_a_missing_folder_of_templates_is_a_user_error():
    with pytest.raises(UserError, match=r"template folder nowhere does not exist"):
        Texts("nowhere", "http://watch")


def test_every_default_is_in_the_file_with_a_comment():
    given = tomllib.loads(Path(conf_file("alerts.toml")).read_text())
    assert set(load_alerts("").model_dump()) == set(given) | {"routes", "channels"}
