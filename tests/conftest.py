"""What holds for every test."""

import os

import pytest
from hypothesis import settings

# The short form is the same at every run, so a red one can be looked at again; the long form looks for what is new.
settings.register_profile("short", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("prove", max_examples=10_000, deadline=None, print_blob=True)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the form, and forget the settings of whoever runs the tests."""
    settings.load_profile("prove" if config.option.markexpr == "prove" else "short")
    for name in [name for name in os.environ if name.startswith("REBALANCE_WATCH_")]:
        del os.environ[name]
