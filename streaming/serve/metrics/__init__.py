"""Prometheus metrics of the groups and of the pipeline, read from the tables at each scrape."""
