"""Whether the OpenTelemetry collector takes what is pushed: `doctor` asks it with requests that are empty."""

from collections.abc import Iterator

from streaming.base.errors import SettingsError
from streaming.base.sections.otlp import Otlp
from streaming.cli.check import Check
from streaming.serve.otlp.start import check


def otlp_checks(otlp: Otlp) -> Iterator[Check]:
    """Yield a check of each signal that is pushed; none if nothing is."""
    if not otlp.endpoint:
        return
    try:
        check(otlp)
    except SettingsError as error:
        yield Check(part="otlp", state="wrong", found="settings can't be used", mend=str(error), needed=False)
        return
    from streaming.serve.otlp.receiver import PushRefusedError, ask  # an extra, which is installed

    for signal in otlp.signals:
        part, url = f"otlp {signal}", otlp.url(signal)
        try:
            ask(otlp, signal)
        except PushRefusedError as error:
            mend = (
                "start the collector, or correct otlp.endpoint and otlp.headers; or remove the signal of otlp.signals"
            )
            yield Check(part=part, state="missing", found=f"{url}: {error}", mend=mend, needed=False)
        else:
            yield Check(part=part, state="ok", found=url, needed=False)
