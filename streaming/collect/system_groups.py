"""Groups of RocketMQ's own, which are not polled."""

from rebalance_model.entities import SYSTEM_GROUP_PREFIX

_NAMES = frozenset(
    {
        "DEFAULT_CONSUMER",
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
    }
)
"""Groups of RocketMQ's own (MixAll.isSysConsumerGroupPullMessage)."""


def is_system_group(name: str) -> bool:
    """Return whether a group is one of RocketMQ's own."""
    return name.startswith(SYSTEM_GROUP_PREFIX) or name in _NAMES
