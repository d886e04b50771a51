"""The services beside the job: web server, pages, metrics and alerts."""
