"""Check a broker's answer against the view of the group that was rebuilt from its hook's events.

Events come in time order. So an answer that lacks a channel is right if the view got the last event of that channel
before the request was sent: the channel was closed, or dropped by the broker's scan, for which there is no event. It is
removed at once. Any other difference is unconfirmed at first: the answer may be older or younger than the last event.
If the next answer shows the same difference, without an event of it in between, the answer is right as well: a
heartbeat or a subscription was not reported. The view is corrected, and the group's next row lists the correction.

While a broker's master is away or has just changed, the answer may come from another replica than the hook's events
(`is_of_other_replica`): it is ignored then.

While a hook is silent or late, an answer replaces its view at once: no other information is available (`take_over`).
Then the corrections list only the channels of clients that are gone, not all that the hook has missed. Without that, a
client that is killed just after its broker has returned, before the hook's first event, would leave without a trace.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from rebalance_model.broker.consumer_group_info import ClientChannelInfo, ConsumerGroupInfo
from rebalance_model.observe.events import ConsumerConnection
from rebalance_model.observe.group.channels import name_channel
from rebalance_model.observe.state import BrokerView, HookView
from rebalance_model.observe.step import GroupStep

TICKS_WITHIN = 2_000
"""A hook ticks every second: without a tick for this long it is gone or late; milliseconds."""
IN_FLIGHT = 1_000
"""A broker's call is reported at most this much later: an answer requested after that includes it; milliseconds."""


class Difference(NamedTuple):
    """One difference between an answer and the view."""

    kind: Literal["CHANNEL_CLOSED", "CHANNEL_MISSED", "SUBSCRIPTION_GONE", "SUBSCRIPTION_MISSED"]
    name: str
    """The channel, or the topic."""
    detail: str
    """The client, or the expression."""
    since: int
    """The stamp of the view's entry: a later event makes it another difference."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.detail}".rstrip()


def is_gone(step: GroupStep, hook: HookView) -> bool:
    """Return whether the hook is silent though its broker answers; just after a tick the broker may be stopping."""
    silence = step.state.silent.get(hook.source)
    return silence is not None and step.now - silence.since > TICKS_WITHIN


def is_of_other_replica(step: GroupStep, view: BrokerView, hook: HookView, event: ConsumerConnection) -> bool:
    """Return whether an answer comes from another replica of the broker than the hook's events.

    The ids differ, and the two share no channel, since clients have a connection of their own to each replica. (Under a
    controller the ids differ always: the name server lists each master as 0.)
    """
    sources = step.cluster.sources
    replica = f"{event.broker}:{event.broker_id}" if event.broker_id else event.broker
    if sources.get(replica) == hook.source or hook.source not in sources.values():
        return False
    return view.info.channel_info_table.keys().isdisjoint(one.channel for one in event.connections or ())


def check(step: GroupStep, view: BrokerView, hook: HookView, polled: ConsumerGroupInfo, asked: int) -> None:
    """Compare the view with an answer; correct what it proves, or what two consecutive answers show differently."""
    for info in polled.channel_info_table.values():
        name_channel(view, info.client_id, info.channel)
    seen = [*_channels(view.info, polled), *_subscriptions(view.info, polled)]
    unconfirmed = set(hook.unconfirmed_differences)
    for difference in seen:
        closed = difference.kind == "CHANNEL_CLOSED" and difference.since < asked - IN_FLIGHT
        if closed or f"{difference} {difference.since}" in unconfirmed:
            _correct(view.info, polled, difference, step.now)
            step.correct(str(difference))
    hook.unconfirmed_differences = tuple(f"{difference} {difference.since}" for difference in seen)
    if not view.info.channel_info_table:
        view.info = ConsumerGroupInfo()


def take_over(step: GroupStep, view: BrokerView, polled: ConsumerGroupInfo) -> None:
    """Replace the view of a silent or late hook by an answer, and record which clients are removed by it."""
    listed = set(polled.client_ids())
    for channel, info in view.info.channel_info_table.items():
        if view.hook is not None and info.client_id not in listed:
            step.correct(str(Difference("CHANNEL_CLOSED", channel, info.client_id, info.last_update_timestamp)))
    view.info, view.hook = polled, None  # when the hook reports again, its view is rebuilt


def _channels(ours: ConsumerGroupInfo, polled: ConsumerGroupInfo) -> Iterator[Difference]:
    theirs = polled.channel_info_table
    for channel, info in ours.channel_info_table.items():
        if channel not in theirs or theirs[channel].client_id != info.client_id:
            yield Difference("CHANNEL_CLOSED", channel, info.client_id, info.last_update_timestamp)
    for channel, info in theirs.items():
        if channel not in ours.channel_info_table:
            yield Difference("CHANNEL_MISSED", channel, info.client_id, 0)


def _subscriptions(ours: ConsumerGroupInfo, polled: ConsumerGroupInfo) -> Iterator[Difference]:
    if not (ours.channel_info_table and polled.channel_info_table):
        return  # without members there is no table to compare
    for topic in sorted(ours.subscription_table.keys() - polled.subscription_table.keys()):
        yield Difference("SUBSCRIPTION_GONE", topic, "", ours.last_update_timestamp)
    for topic, subscription in polled.subscription_table.items():
        known = ours.subscription_table.get(topic)
        if known != subscription:
            yield Difference("SUBSCRIPTION_MISSED", topic, subscription.sub_string, known.sub_version if known else 0)


def _correct(ours: ConsumerGroupInfo, polled: ConsumerGroupInfo, difference: Difference, now: int) -> None:
    name = difference.name
    if difference.kind == "CHANNEL_CLOSED":
        del ours.channel_info_table[name]
    elif difference.kind == "SUBSCRIPTION_GONE":
        ours.subscription_table.pop(name, None)
    elif difference.kind == "SUBSCRIPTION_MISSED":
        ours.subscription_table[name] = polled.subscription_table[name]
    else:
        info = polled.channel_info_table[name]
        ours.channel_info_table[name] = ClientChannelInfo(name, info.client_id, info.language, info.version, now)
        if len(ours.channel_info_table) == 1:  # the first known member: no other has reported the group's configuration
            ours.subscription_table = dict(polled.subscription_table)
            ours.consume_type, ours.message_model = polled.consume_type, polled.message_model
            ours.consume_from_where = polled.consume_from_where
