"""The limits of a broker (BrokerConfig), and the codes of its responses (ResponseCode)."""

import msgspec

SUCCESS = 0
SYSTEM_ERROR = 1
TOPIC_NOT_EXIST = 17
QUERY_NOT_FOUND = 22
"""A group has no committed offset of the queue."""
SUBSCRIPTION_GROUP_NOT_EXIST = 26


class BrokerConfig(msgspec.Struct, frozen=True):
    """Settings of one broker; durations in milliseconds."""

    notify_consumer_ids_changed_enable: bool = True
    """True if members are notified when the membership changes."""
    real_time_notify_consumer_change: bool = True
    """True if they are notified at once; otherwise every 15 s, with each group's last list only."""
    channel_expired_timeout: int = 120_000
    """A member without a heartbeat for longer is removed by the scan."""
    subscription_expired_timeout: int = 600_000
    """A subscription that was compensated, not sent by a heartbeat, is removed after this."""
    enable_fast_channel_event_process: bool = False
    """A closed channel is searched for in the groups recorded on it, instead of in all."""
    reject_pull_consumer_enable: bool = False
    """Heartbeats of CONSUME_ACTIVELY groups are ignored."""
    auto_create_subscription_group: bool = True
    """A group's first heartbeat creates its configuration."""
    enable_create_sys_group: bool = True
    """As above, for ``CID_RMQ_SYS_`` groups alone; independent of the setting above."""
    use_server_side_reset_offset: bool = True
    """An offset that an operator resets is kept by the broker until the client has taken it."""
    lock_in_strict_mode: bool = False
    """A queue lock needs a majority of the replicas (`lock_in_strict_mode`)."""
    total_replicas: int = 1
    """The number of brokers, master and slaves, with this broker's name (MessageStoreConfig)."""
