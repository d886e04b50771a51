"""Compare the broker's assignment with a real broker's processor: queues and mode for every client of every case."""

import jpype
import pytest

from rebalance_model.allocation.server_side import QueryAssignmentProcessor, RequestMode, _is_blank
from tests.differential.server_side_java import JavaProcessor
from tests.differential.server_side_script import BROKER, case, model_answers


@pytest.fixture
def java(jvm, tmp_path):
    return JavaProcessor(tmp_path)


def test_every_answer_equals_javas(java):
    _compare(java, range(500))


@pytest.mark.prove
def test_every_answer_equals_javas_in_the_long_run(java):
    _compare(java, range(500, 50_000))


def _compare(java: JavaProcessor, seeds: range) -> None:
    for seed in seeds:
        asked = case(seed)
        assert model_answers(asked) == java.answers(asked), f"seed {seed}: {asked}"


@pytest.mark.parametrize("topic", ["T", "%RETRY%G", "nowhere"])
@pytest.mark.parametrize("group", ["G", "nobody"])
def test_a_mode_is_set_or_refused_as_in_java(java, topic, group):
    java.controller.getTopicConfigManager().putTopicConfig(jpype.JClass("org.apache.rocketmq.common.TopicConfig")("T"))
    config = jpype.JClass("org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig")()
    config.setGroupName("G")
    java.controller.getSubscriptionGroupManager().putSubscriptionGroupConfig(config)

    model = QueryAssignmentProcessor(BROKER)
    exists = {"topic_exists": topic != "nowhere", "group_exists": group == "G"}
    said = model.set_message_request_mode(topic, group, RequestMode("POP", 3), **exists)
    assert said == java.set_mode(topic, group, "POP", 3)
    known = model.message_request_modes.get((topic, group))
    assert java.mode_of(topic, group) == (known and known.mode)


def test_the_same_characters_are_blank_as_in_java(jvm):
    is_blank = jpype.JClass("org.apache.commons.lang3.StringUtils").isBlank
    characters = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    assert [c for c in characters if is_blank(c)] == [c for c in characters if _is_blank(c)]
