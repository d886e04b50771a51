"""The audit: compare the program's answers with an evaluation of the raw telemetry that shares no code with the core.

Only the tests, `job` and `mutants` import the program: the audit reads telemetry as JSON lines, answers as JSON from
the REST API, and rows from the Delta tables. It uses the program's definitions of quantities (a series), of time (one
timeline), and of the cost of a rebalance. It is tested itself: each fault of `mutants`, put into the program, is found.
"""
