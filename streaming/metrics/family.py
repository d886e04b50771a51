"""Metric families as the collector gives them."""

from collections.abc import Iterable, Sequence
from typing import Literal

from prometheus_client import Metric

Sample = tuple[Sequence[str], float | None]
"""The values of the labels, and what was measured; None is not known and gives no series."""


def family(
    name: str,
    documentation: str,
    labels: Sequence[str],
    samples: Iterable[Sample],
    kind: Literal["gauge", "counter", "unknown"] = "gauge",
) -> Metric:
    """A family under exactly this name.

    Args:
        name: with its unit at the end.
        documentation: what it tells, and when there is no series.
        labels: their names.
        samples: what was measured.
        kind: ``counter`` only where the name ends in ``_total``; one with another name is ``unknown``.
    """
    metric = Metric(name.removesuffix("_total") if kind == "counter" else name, documentation, kind)
    for values, measured in samples:
        if measured is not None:
            metric.add_sample(name, dict(zip(labels, map(str, values), strict=True)), measured)
    return metric
