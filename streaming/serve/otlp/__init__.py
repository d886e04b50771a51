"""Data for an OpenTelemetry collector: the metrics of `/metrics`, and spans of batches and rounds of polls."""
