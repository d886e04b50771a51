"""Messages in Chinese, by the file and by the channel."""

import json

import msgspec
import pytest

from rebalance_model.observe.rules import ordered_queue_stuck
from streaming.base.errors import SettingsError
from streaming.serve.alerting.alert import Alert, Delivery, key_of
from streaming.serve.alerting.config import load_alerts
from streaming.serve.alerting.render import Texts
from tests.support.alerting import MINUTE, NOW, transition

ADVICE = ordered_queue_stuck.RULE.advise("SUSPEND_LOOP")
STUCK = {
    "code": "ORDERED_QUEUE_STUCK",
    "sub_cause": "SUSPEND_LOOP",
    "evidence": json.dumps({"lag": 1_200, "commit_offset": 712, "stalled_ms": 61_000, "locked": True}),
    "explanation": ADVICE.what,
    "first_step": ADVICE.first_step,
}
OPENED = """\
严重 ORDERED_QUEUE_STUCK SUSPEND_LOOP: orders Orders@b:0
持有者的监听器反复收到同一条消息却始终不接受：毒消息。
首要操作：查看消费位点处的消息；修复监听器，或设置 maxReconsumeTimes 使其进入死信队列。
mqadmin queryMsgByOffset -b b -t Orders -i 0 -o 712
mqadmin consumerStatus -g orders -i c1 -s
发生于 2026-11-21T16:53:20.000Z，集群 c，客户端 c1
堆积量：1200
消费位点：712
停滞时长：1 分 1 秒
已加锁：是
http://watch/incident/i1"""


def message(*alerts, language="zh", summary=False, templates=""):
    texts = Texts(templates, "http://watch", language_of=lambda _: language)
    return texts.message(Delivery("k", "ops", alerts, summary=summary, attempt=1))


def alert(kind="OPENED", incident="i1", notified="warning", **fields):
    one = transition(incident, **STUCK | {"cluster": "c", "client_id": "c1"} | fields)
    return Alert(key=key_of(one, "ops"), kind=kind, notified_severity=notified, transition=one)


def test_an_alert_in_chinese():
    made = message(alert())
    assert f"{made.title}\n{made.body}" == OPENED
    assert made.alerts[0]["main_explanation"] == OPENED.splitlines()[1]  # what a webhook gets as JSON


@pytest.mark.parametrize(
    ("kind", "title", "line"),
    [
        ("ESCALATED", "[升级] 严重", "，此前为警告"),
        ("REMINDER", "[提醒] 严重", "停止提醒：rebalance-watch alert ack i1"),
        ("RESOLVED", "[已恢复]", "（1 小时 1 分）"),
    ],
)
def test_the_other_messages_in_chinese(kind, title, line):
    made = message(alert(kind, time=NOW + 61 * MINUTE))
    assert made.title == f"{title} ORDERED_QUEUE_STUCK SUSPEND_LOOP: orders Orders@b:0"
    assert line in made.body


def test_several_alerts_and_a_summary_in_chinese():
    many = [alert(incident=f"i{n}", group=f"g{n}") for n in range(5)]
    assert message(*many[:2]).title == "g0 的 2 条告警，严重"
    made = message(*many, alert("RESOLVED", "x"), summary=True)
    assert made.title == "6 个消费组的 6 条告警，其中 6 条严重"
    assert "5 x [新问题] 严重 ORDERED_QUEUE_STUCK: g0, g1, g2 等（另有 2 个）" in made.body


def test_a_sentence_of_another_release_is_told_by_this_ones_advice():
    assert message(alert(explanation="A poison message, as a former release said.")).body == message(alert()).body
    unknown = message(alert(code="OF_ANOTHER_RELEASE", sub_cause="", explanation="Something else.", first_step="Look."))
    assert "Something else." in unknown.body


def test_a_users_template_gets_the_sentences_in_the_channels_language(tmp_path):
    (tmp_path / "opened.txt").write_text("{{ code }}\nMeaning: {{ main_explanation }} lag {{ evidence.lag }}")
    assert message(alert(), templates=str(tmp_path)).body == f"Meaning: {OPENED.splitlines()[1]} lag 1200"


def test_a_users_template_cannot_reach_attributes_through_texts(tmp_path):
    (tmp_path / "opened.txt").write_text("{{ _('{x.__init__.__globals__}', x=cycler) }}")
    assert message(alert(), templates=str(tmp_path)).title == "{x.__init__.__globals__}"


def configured(tmp_path, text):
    (tmp_path / "alerts.toml").write_text(text)
    return load_alerts(str(tmp_path / "alerts.toml"))


def test_a_channel_has_the_files_language_or_its_own(tmp_path):
    channel = '[channels.{}]\nkind = "webhook"\nurl = "http://127.0.0.1"\n'
    config = configured(
        tmp_path, 'language = "zh"\n' + channel.format("own") + 'language = "en"\n' + channel.format("files")
    )
    assert [config.language_of(name) for name in ("own", "files", "removed")] == ["en", "zh", "zh"]
    assert load_alerts("").language_of("any") == "en"
    with pytest.raises(SettingsError, match="language"):
        configured(tmp_path, 'language = "fr"')


def test_the_message_is_english_by_default():
    english = Texts("", "http://watch").message(Delivery("k", "ops", (alert(),), summary=False, attempt=1))
    assert english.title == "CRITICAL ORDERED_QUEUE_STUCK SUSPEND_LOOP: orders Orders@b:0"
    assert "no commit for: 1 min 1 s\nlocked: yes" in english.body
    assert msgspec.json.encode(english).isascii()
