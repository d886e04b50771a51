"""The codes by which a broker answers a request (org.apache.rocketmq.remoting.protocol.ResponseCode)."""

SUCCESS = 0
SYSTEM_ERROR = 1
TOPIC_NOT_EXIST = 17
QUERY_NOT_FOUND = 22
"""A group has no committed offset of the queue."""
SUBSCRIPTION_GROUP_NOT_EXIST = 26
