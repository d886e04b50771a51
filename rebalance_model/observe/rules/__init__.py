"""The rules: one file for each finding, and what judges them.

`rule` defines what a rule is, `registry` lists the rules in the order of judgement and checks them at import,
`judgement` decides which of them are judged when, `lifecycle` turns their verdicts into incidents, and `coverage` says
which of them are silent for want of telemetry.
"""
