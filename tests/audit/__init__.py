"""The audit: what the tables answer, compared with a reading of the raw telemetry that shares no code with the core.

Nothing here but `test_audit` and `job` imports the program: telemetry comes in as JSON lines, answers as JSON from its
REST API, and rows from the Delta tables. The definitions are those of the design: quantities as a series, one timeline,
and what a rebalance costs.
"""
