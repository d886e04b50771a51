"""Queries over the tables, with typed results.

The command line, the REST API and the dashboard share them, so they show the same results. Each query takes an open
`ReadModel` and, where it applies, an instant in epoch milliseconds; None is now.
"""
