"""Defaults of a client's settings, of those that an observer decides by; durations in milliseconds."""

LOCK_INTERVAL = 20_000
"""rocketmq.client.rebalance.lockInterval: how often an ordered CLUSTERING consumer renews all its locks."""
WAIT_INTERVAL = 20_000
"""rocketmq.client.rebalance.waitInterval: how often a client rebalances without a notification."""
PULL_BATCH_SIZE = 32
"""pullBatchSize: the messages of one pull, at most."""
PULL_THRESHOLD_FOR_QUEUE = 1_000
"""pullThresholdForQueue: a client with this many cached messages of a queue stops pulling it."""
CONSUME_DELAY_MAX = 30_000
"""ConsumeMessageOrderlyService: the longest wait before a suspended ordered queue is consumed again."""
