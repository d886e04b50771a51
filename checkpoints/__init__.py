"""The gates and the recovery points: quality suites, and the life of the streaming checkpoints."""
