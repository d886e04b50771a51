"""What Prometheus scrapes: the groups' health and the pipeline's own, read from the tables at each scrape."""
