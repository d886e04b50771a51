"""What brokers must know of groups that pop before their first consumer starts, set by the administrator."""

from collections.abc import Iterable

import jpype

from streaming.lab.control import PopSubscription
from streaming.lab.jvm import JavaObject

_ALL_SHARE = 0
"""popShareQueueNum: every client pops from all queues."""
_ANSWER_MS = 5_000


def ordered_topics(pops: Iterable[PopSubscription]) -> set[str]:
    """Return the topics whose messages have an order."""
    return {one.topic for one in pops if one.ordered}


def set_up_groups(admin: JavaObject, broker: str, pops: Iterable[PopSubscription]) -> None:
    """Create the groups on a broker, and set the request mode of those whose clients ask for it.

    Args:
        admin: a started DefaultMQAdminExt.
        broker: the broker's address.
        pops: the groups with their topics, which exist.
    """
    group_config = jpype.JClass("org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig")
    mode = jpype.JClass("org.apache.rocketmq.common.message.MessageRequestMode")
    for pop in pops:
        config = group_config()
        config.setGroupName(pop.group)
        config.setConsumeMessageOrderly(pop.ordered)
        admin.createAndUpdateSubscriptionGroupConfig(broker, config)
        if pop.sets_mode:
            admin.setMessageRequestMode(broker, pop.topic, pop.group, mode.POP, _ALL_SHARE, _ANSWER_MS)
