"""Everything that runs, one folder for each part of the way from telemetry to an answer (README.md beside this)."""
