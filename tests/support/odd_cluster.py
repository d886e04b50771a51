"""A cluster over TCP with two groups: one whose clients answer as Java's, one with a client that answers oddly."""

import json

from streaming.collect.requests import ReadCode
from tests.support.counted_cluster import BROKER, CLUSTER, CountedCluster, answered

HEALTHY, ODD = "healthy-group", "odd-group"
CLIENT, BESIDE = "odd-client", "java-client"
"""Of the odd group: the client with odd answers, and one that answers as it should."""
TOPIC = "Orders"
NOW = 1_795_724_400_000


def process_queue(**changes):
    """A row of a client's mqTable; a change to None leaves a field out."""
    row = {
        "cachedMsgCount": 3, "cachedMsgMaxOffset": 55, "cachedMsgMinOffset": 53, "cachedMsgSizeInMiB": 0,
        "commitOffset": 53, "droped": False, "lastConsumeTimestamp": NOW - 200, "lastLockTimestamp": NOW - 5_000,
        "lastPullTimestamp": NOW - 100, "locked": True, "transactionMsgCount": 1, "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0, "tryUnlockTimes": 0,
    }  # fmt: skip
    return {name: value for name, value in (row | changes).items() if value is not None}


def key(queue_id, topic=TOPIC):
    """A message queue as fastjson writes it."""
    return json.dumps({"brokerName": BROKER, "queueId": queue_id, "topic": topic})


def table(rows):
    """An object whose keys are JSON."""
    return "{" + ",".join(f"{name}:{json.dumps(row)}" for name, row in rows) + "}"


def running_info(queues, **more):
    """The body of a client's state: ``queues`` is its mqTable, as text."""
    rest = {
        "properties": {
            "PROP_CONSUMEORDERLY": "true", "PROP_CONSUMER_START_TIMESTAMP": str(NOW - 60_000),
            "allocateMessageQueueStrategy": "org.a.AllocateMessageQueueAveragely@1",
        },
        "subscriptionSet": [{"topic": TOPIC, "subString": "*", "expressionType": "TAG", "subVersion": NOW}],
        "statusTable": {},
    } | more  # fmt: skip
    return f'{{"mqTable":{queues},{json.dumps(rest)[1:]}'.encode()


class OddCluster(CountedCluster):
    """Answers for both groups; ``odd`` returns the frame of an odd answer to a request, or None."""

    def __init__(self, odd=lambda question: None, brokers=()):
        super().__init__([HEALTHY, ODD])
        self.members = {HEALTHY: ["java-1", "java-2"], ODD: [CLIENT, BESIDE]}
        self._odd = odd
        self._brokers = dict(brokers)
        """Further brokers: cluster and address by name."""

    def frame(self, question):
        odd = self._odd(question)
        if odd is not None:
            return odd
        if question.code == ReadCode.GET_CONSUMER_RUNNING_INFO:
            first = self.members[question.fields["consumerGroup"]].index(question.fields["clientId"])
            return answered(
                question, running_info(table((key(n), process_queue()) for n in (first * 2, first * 2 + 1)))
            )
        if question.code == ReadCode.GET_CONSUME_STATS:
            offsets = {"brokerOffset": 60, "consumerOffset": 53, "pullOffset": 55, "lastTimestamp": NOW - 300}
            body = '{"consumeTps":1.0,"offsetTable":' + table((key(number), offsets) for number in range(4)) + "}"
            return answered(question, body.encode())
        return super().frame(question)

    def content(self, question):
        content = super().content(question)
        if question.code == ReadCode.GET_BROKER_CLUSTER_INFO:
            for name, (cluster, address) in self._brokers.items():
                broker = {"cluster": cluster, "brokerName": name, "brokerAddrs": {"0": address}}
                content["brokerAddrTable"][name] = broker
        if question.code == ReadCode.GET_CONSUMER_CONNECTION_LIST:
            content |= {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
            for one in content["connectionSet"]:
                one |= {"language": "JAVA", "version": 493}
        return content


__all__ = ["BROKER", "CLIENT", "CLUSTER", "HEALTHY", "ODD", "TOPIC", "OddCluster", "answered"]
