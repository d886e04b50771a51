"""The hook in a RocketMQ broker: its Java source, and what makes a jar of it."""
