"""The telemetry log: one ordered sequence of rows per partition, the same in Kafka and in files."""
