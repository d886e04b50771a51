"""The hook in a RocketMQ broker: its Java source, and the build of its jar."""
