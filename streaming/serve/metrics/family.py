"""Create metric families."""

from collections.abc import Iterable, Sequence
from typing import Literal

from prometheus_client import Metric

Sample = tuple[Sequence[str], float | None]
"""The label values and the measured value; None is unknown and creates no series."""


def family(
    name: str,
    documentation: str,
    labels: Sequence[str],
    samples: Iterable[Sample],
    kind: Literal["gauge", "counter", "unknown"] = "gauge",
) -> Metric:
    """Create a family with exactly this name.

    Args:
        name: the name, with its unit at the end.
        documentation: what it measures, and when there is no series.
        labels: the names of the labels.
        samples: the samples.
        kind: ``counter`` only where the name ends in ``_total``; one with another name is ``unknown``.
    """
    metric = Metric(name.removesuffix("_total") if kind == "counter" else name, documentation, kind)
    for values, measured in samples:
        if measured is not None:
            metric.add_sample(name, dict(zip(labels, map(str, values), strict=True)), measured)
    return metric
