"""The telemetry log: one ordered sequence of rows for each partition, in Kafka or in files, the same in both."""
