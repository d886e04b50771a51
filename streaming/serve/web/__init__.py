"""The web server: pages, REST API and metrics over one long-lived read model."""
