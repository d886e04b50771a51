"""Questions without an answer: wrong usage, and what does not exist; one sentence each."""

import pytest

from streaming.base.errors import UserError


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("group", "show", "--format", "json"), "Specify one group"),
        (("group", "diff", "--from", "1h"), "Specify one group"),
        (("group", "show", "g", "-g", "h"), "Specify one group"),
        (("group", "diff", "g"), "--from"),
        (("who-owned", "g", "Orders"), "Specify the queue last"),
        (("queue", "show", "x", "g", "Orders", "broker-a:0"), "Specify group, topic and queue"),
        (("who-owned", "x", "g", "Orders", "broker-a:0"), "Specify group, topic and queue"),
        (("allocate", "g", "--rolling-restart", "--join", "1"), "omit --leave, --join and --clients"),
        (("incident", "list", "--severity", "awful"), "awful"),
        (("group", "list", "--every", "0"), "0.5"),
    ],
)
def test_wrong_usage_ends_with_2(ask, command, says):
    ended = ask(*command)
    assert ended.code == 2
    assert says in " ".join(ended.err.replace("│", "").split())


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("group", "show", "gg"), "did you mean g"),
        (("who-owned", "broker-a:0"), "No group has a topic broker-a: known topics: "),
        (
            ("who-owned", "Orders:0"),
            "Several brokers have such a queue: specify one of Orders@broker-a:0, ",
        ),
        (("queue", "show", "Orders@broker-a:0"), r"Several groups have the queue Orders@broker-a:0: specify one of "),
        (("queue", "show", "Orders@broker-a:99"), "No group has a queue Orders@broker-a:99: Orders has queues 0 to "),
        (("who-owned", "Orders@broker-a:99"), "No group has a queue Orders@broker-a:99: Orders has queues 0 to "),
        (("who-owned", "g", "Orders:99"), "Unknown queue 99 of Orders in g."),
        (("who-owned", "g", "broker-a:0"), "Unknown topic broker-a of g: known topics"),
        (("who-owned", "g", "Orders:0"), "specify one of Orders@broker-a:0, Orders@broker-b:0"),
        (("--tz", "Mars", "who-owned", "g", "Orders:0"), "Unknown time zone 'Mars'"),
        (("group", "show", "twin"), "select one with --cluster"),
        (("group", "list", "--at", "soon"), "Invalid time 'soon'"),
        (("group", "list", "--at", "2020-01-01"), "History begins at"),
        (("incident", "show", "zz"), "No incident has an id beginning with 'zz'"),
        (("allocate", "g", "--clients", "A", "--strategy", "FAIR"), "Invalid strategy 'FAIR': use one of AVG, "),
        (("incident", "list", "--code", "LAG_GROWT"), "Invalid code 'LAG_GROWT': did you mean LAG_GROWTH?"),
        (("allocate", "g", "--leave", "zz"), "zz is not a member of g"),
    ],
)
def test_what_can_not_be_answered_is_a_sentence(ask, command, sentence):
    with pytest.raises(UserError, match=sentence):
        ask(*command)


def test_without_tables_it_says_where_there_are_some(tmp_path, ask_at):
    assert "run `rebalance-watch demo`" in str(ask_at(tmp_path, "group", "list").exception)
    (tmp_path / "demo" / "tables").mkdir(parents=True)
    said = ask_at(tmp_path, "group", "list").exception
    assert isinstance(said, UserError)
    assert f"To query those of the demo, use --root {tmp_path / 'demo'}" in str(said)
