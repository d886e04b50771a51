import dataclasses

import pytest

from streaming.collect.requests import ReadCode, Request

# RequestCode's names for what only reads. A new code of the collector has to be added here too, by someone who has
# read what the broker does with it.
READ_ONLY = {28, 105, 106, 201, 202, 203, 208, 303, 307}
MUTATING = {
    10: "SEND_MESSAGE",
    11: "PULL_MESSAGE",
    15: "UPDATE_CONSUMER_OFFSET",
    17: "UPDATE_AND_CREATE_TOPIC",
    25: "UPDATE_BROKER_CONFIG",
    34: "HEART_BEAT",
    35: "UNREGISTER_CLIENT",
    41: "LOCK_BATCH_MQ",
    42: "UNLOCK_BATCH_MQ",
    200: "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
    207: "DELETE_SUBSCRIPTIONGROUP",
    215: "DELETE_TOPIC_IN_BROKER",
    220: "RESET_CONSUMER_CLIENT_OFFSET",
    222: "INVOKE_BROKER_TO_RESET_OFFSET",
    314: "CLONE_GROUP_OFFSET",
    401: "SET_MESSAGE_REQUEST_MODE",
}


def test_only_read_only_codes_can_be_requested():
    assert {code.value for code in ReadCode} == READ_ONLY


@pytest.mark.parametrize("code", MUTATING)
def test_a_code_that_changes_something_makes_no_request(code):
    with pytest.raises(ValueError, match="not a valid ReadCode"):
        Request(code)


def test_no_other_code_makes_a_request():
    buildable = set()
    for code in range(-1, 4000):
        try:
            buildable.add(Request(code).code)
        except ValueError:
            continue
    assert buildable == READ_ONLY


def test_a_request_can_not_be_turned_into_another():
    request = Request(ReadCode.GET_CONSUME_STATS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.code = 34
    with pytest.raises(ValueError, match="not a valid ReadCode"):
        dataclasses.replace(request, code=34)
