"""What an OpenTelemetry collector is sent: the metrics of `/metrics`, and spans of batches and rounds of polls."""
