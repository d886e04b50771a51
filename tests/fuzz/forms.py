"""The two forms of a fuzz test: some hundred examples, the same at every run, or many new ones (`make prove`)."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

_PROVE = settings().max_examples > 1_000


def fuzzed(short: int, long: int) -> Callable[[Any], Any]:
    """Return a decorator that runs a test of Hypothesis with this many examples in each form."""
    chosen = settings(
        max_examples=long if _PROVE else short,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    )
    forms = pytest.mark.parametrize("form", ["short", pytest.param("long", marks=pytest.mark.prove)])
    return lambda test: forms(chosen(test))
