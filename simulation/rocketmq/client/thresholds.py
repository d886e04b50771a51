"""Divide a topic's flow control thresholds among the queues that a client has (RebalancePushImpl)."""

from simulation.rocketmq.client.consumer_config import ConsumerConfig

UNLIMITED = -1


def share_out(config: ConsumerConfig, queue_count: int) -> None:
    """Overwrite the thresholds for a queue after a changed rebalance, permanently.

    Args:
        config: has both pairs; a topic's threshold of -1 leaves the queue's unchanged.
        queue_count: the process queues of the client over *all* topics; 0 changes nothing.
    """
    if queue_count == 0:
        return
    if config.pull_threshold_for_topic != UNLIMITED:
        config.pull_threshold_for_queue = max(1, config.pull_threshold_for_topic // queue_count)
    if config.pull_threshold_size_for_topic != UNLIMITED:
        config.pull_threshold_size_for_queue = max(1, config.pull_threshold_size_for_topic // queue_count)
