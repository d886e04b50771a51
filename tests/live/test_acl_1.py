"""ACL 1.0 in a real broker 4.9: an account without any right is enough, and what is refused is one sentence."""

import asyncio

import pytest

from streaming.base import jars
from streaming.base.settings import load_settings
from streaming.collect.client import RemotingClient, RequestRefusedError, RpcFailedError
from streaming.collect.requests import ReadCode, Request
from streaming.collect.security import Credentials, Security
from tests.support import hooked
from tests.support.bodies import body_of

pytestmark = [pytest.mark.live, pytest.mark.prove]

ACCOUNTS = """
accounts:
  - accessKey: monitor
    secretKey: monitor-secret
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
"""
OF_GROUP = {"consumerGroup": "g1"}
REQUESTS = (
    Request(ReadCode.GET_BROKER_RUNTIME_INFO),
    Request(ReadCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    Request(ReadCode.GET_CONSUMER_CONNECTION_LIST, OF_GROUP),
    Request(ReadCode.GET_CONSUME_STATS, OF_GROUP),
    Request(ReadCode.QUERY_CONSUME_TIME_SPAN, {"topic": "TBW102", "group": "g1"}),
    Request(ReadCode.GET_TOPIC_STATS_INFO, {"topic": "TBW102"}),
    Request(ReadCode.GET_CONSUMER_RUNNING_INFO, OF_GROUP | {"clientId": "c", "jstackEnable": "false"}),
)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    home = tmp_path_factory.mktemp("broker")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    jars_4_9 = jars.ensure("rocketmq4", load_settings().runtime.jars)
    with hooked.broker(home, spool=None, broker_jars=jars_4_9, conf="aclEnable=true") as broker:
        yield "{}:{}".format(*broker.address)


def failure(address, request, credentials):
    """Return why the request failed; None if it was answered."""

    async def ask():
        async with RemotingClient(Security(credentials=credentials)) as client:
            await client.ask(address, request, body_of, seconds=10)

    try:
        asyncio.run(ask())
    except RpcFailedError as error:
        return error
    return None


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.code.name)
def test_an_account_without_rights_may_send_every_request(address, request_):
    assert not isinstance(failure(address, request_, Credentials("monitor", "monitor-secret")), RequestRefusedError)
    assert isinstance(failure(address, request_, None), RequestRefusedError)


@pytest.mark.parametrize(
    ("credentials", "sentence"),
    [
        (Credentials("monitor", "wrong"), "refuses the signature of monitor: correct its secret key"),
        (Credentials("nobody", "x"), "does not know the access key or user nobody: correct rocketmq.access_key"),
        (None, "accepts only signed requests: set rocketmq.access_key and its secret key."),
    ],
)
def test_what_is_refused_is_one_sentence(address, credentials, sentence):
    error = failure(address, REQUESTS[0], credentials)
    assert isinstance(error, RequestRefusedError)
    assert error.remark.startswith(f"RocketMQ at {address} {sentence}")
