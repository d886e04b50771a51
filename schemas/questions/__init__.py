"""Fourteen questions of a data engineer, in SQL over the tables alone: `python -m schemas.questions TABLES`."""
