"""Settings with their defaults, thresholds, jar lists and constraints: data only."""
