"""The OpenTelemetry collector for one signal: requests and their results, with a line in the log when these change."""

import gzip
import ssl
from collections import Counter
from collections.abc import Callable
from urllib.parse import unquote

import httpx
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from streaming.base.errors import SettingsError, first_line
from streaming.base.http import HttpAnswer, Poster, check_headers
from streaming.base.limits import REPLY_BYTES
from streaming.base.secrets import Redaction, secret_of, text_of
from streaming.base.sections.reporting import Otlp, Signal
from streaming.base.terminal import visible

_HEADERS = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
_RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
"""The statuses after which the same request may succeed later."""
_REASON_CHARACTERS = 200


class PushRefusedError(Exception):
    """A request was not accepted; `again`: the same one may be later."""

    def __init__(self, reason: str, *, again: bool) -> None:
        super().__init__(reason)
        self.again = again


class Receiver:
    """Sends the requests of one signal, from one thread."""

    def __init__(self, otlp: Otlp, signal: Signal, log: Callable[[str], None]) -> None:
        """Open no connection yet.

        ``log`` is called with a sentence, which has no secret, when requests begin to fail, and when they succeed
        again.

        Raises:
            SettingsError: the headers or the authority can't be used.
        """
        headers = headers_of(otlp)
        self.signal = signal
        self.results: Counter[str] = Counter(ok=0, failed=0)
        """The numbers of requests that succeeded and that failed."""
        self._url = otlp.url(signal)
        self._log = log
        self._redaction = Redaction(headers.values())
        self._poster = Poster(otlp.timeout_seconds, REPLY_BYTES, headers=_HEADERS | headers, tls=_tls(otlp))
        self._is_failing = False

    def send(self, request: Message) -> None:
        """Send a request.

        Raises:
            RefusedError: it was not accepted, or not all of it.
        """
        try:
            self._post(request)
        except PushRefusedError as error:
            self.note_failure(str(error))
            raise
        self.results["ok"] += 1
        if self._is_failing:
            self._is_failing = False
            self._log(f"OTLP: {self.signal} are pushed to {self._url} again")

    def note_failure(self, reason: str) -> None:
        """Count a failure, and log it if the push before it was none."""
        self.results["failed"] += 1
        if not self._is_failing:
            self._is_failing = True
            self._log(f"OTLP: {self.signal} can't be pushed to {self._url}: {reason} (tried again, without more lines)")

    def close(self) -> None:
        """Close the connections."""
        self._poster.close()

    def _post(self, request: Message) -> None:
        try:
            answer = self._poster.post(self._url, content=gzip.compress(request.SerializeToString(), 1))
        except TimeoutError:
            raise PushRefusedError("no answer in time", again=True) from None
        except (OSError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise PushRefusedError(self._readable(first_line(error) or type(error).__name__), again=True) from None
        if not answer.is_success:
            raise PushRefusedError(f"HTTP {answer.status}{self._detail(answer)}", again=answer.status in _RETRYABLE)
        try:
            rejected = self._rejected(answer.body)
        except DecodeError:
            raise PushRefusedError("what answers there is no OpenTelemetry collector", again=False) from None
        if rejected:
            raise PushRefusedError(rejected, again=False)

    def _rejected(self, body: bytes) -> str:
        """Return what the answer to an accepted request says of rejected parts of it; empty: nothing."""
        if self.signal == "metrics":
            metrics = ExportMetricsServiceResponse.FromString(body).partial_success
            rejected, text = f"{metrics.rejected_data_points} data points", metrics.error_message
        else:
            traces = ExportTraceServiceResponse.FromString(body).partial_success
            rejected, text = f"{traces.rejected_spans} spans", traces.error_message
        return "" if rejected.startswith("0 ") else f"{rejected} were rejected ({self._readable(text)})"

    def _detail(self, answer: HttpAnswer) -> str:
        """Return what the answer says of an error, if it is text: a collector's own is binary."""
        text = answer.body.decode("utf-8", "replace").strip()
        return f" ({self._readable(text)})" if text and "\ufffd" not in text and text.isprintable() else ""

    def _readable(self, text: str) -> str:
        return visible(self._redaction.of(text))[:_REASON_CHARACTERS]


def ask(otlp: Otlp, signal: Signal) -> None:
    """Send an empty request.

    Raises:
        RefusedError: it was not accepted.
        SettingsError: the headers or the authority can't be used.
    """
    receiver = Receiver(otlp, signal, lambda _: None)
    try:
        receiver.send(ExportMetricsServiceRequest() if signal == "metrics" else ExportTraceServiceRequest())
    finally:
        receiver.close()


def headers_of(otlp: Otlp) -> dict[str, str]:
    """Return the headers of each request.

    Raises:
        SettingsError: they can't be read, or can't be sent; the sentence has no value of one.
    """
    text = secret_of("otlp.headers", otlp.headers, otlp.headers_file)
    parts = [part.partition("=") for line in text.splitlines() for part in line.split(",") if part.strip()]
    headers = {name.strip(): unquote(value.strip()) for name, _, value in parts}
    try:
        check_headers(headers)
    except ValueError:
        raise SettingsError(
            "otlp.headers can't be sent: write NAME=VALUE,NAME=VALUE in ASCII; in a value a comma is %2C and % is %25."
        ) from None
    return headers


def _tls(otlp: Otlp) -> ssl.SSLContext | None:
    if not otlp.ca_file:
        return None
    try:
        return ssl.create_default_context(cadata=text_of("otlp.ca_file", otlp.ca_file))
    except ssl.SSLError:
        raise SettingsError(f"The file {otlp.ca_file} has no PEM certificate: correct otlp.ca_file.") from None
