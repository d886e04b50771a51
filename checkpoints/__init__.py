"""Recovery: the generation of the streaming checkpoints, swaps after a rebuild, and the quality suites.

The package lies between two layers of `streaming`: it imports tables, log and base, and the pipeline and all readers
import it. Import-linter enforces this (pyproject.toml), so there is no import cycle.
"""
