"""A real RocketMQ cluster, Kafka and consumers on this machine, with faults to inject; and the demo."""
