"""The questions that people ask of the tables, and their typed answers.

The command line, the REST API and the dashboard ask the same ones, so they give the same answers. Each takes an open
`ReadModel` and, where that makes sense, an instant: epoch milliseconds, None for now.
"""
