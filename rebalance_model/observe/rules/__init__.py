"""The rules: one file for each finding, and the modules that judge them.

`rule` defines what a rule is. `registry` lists the rules in the order of judgement and checks them at import.
`judgement` decides which rules are judged at which step. `lifecycle` turns verdicts into incidents. `coverage` lists
the rules that are suspended because their telemetry is missing.
"""
