"""Public reports of people who run RocketMQ, as telemetry: what is said of each, by polls, by hook, by both.

Each folder of `cases` is one report; `tests/field/REPORTS.md` has the table with its reference and what is right.
"""
