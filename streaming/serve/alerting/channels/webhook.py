"""Webhook: posts a message as JSON to an HTTP server, as it is, for a chat service, or by the user's template.

DingTalk, WeCom and Lark (Feishu) answer a message that they refuse with HTTP 200 and a code in the JSON. Apprise takes
that for a delivery, so that a wrong keyword or signature would lose alerts in silence.
"""

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from jinja2 import Template

from streaming.base.errors import UserError
from streaming.serve.alerting.alert import Delivery
from streaming.serve.alerting.channels.channel import ChannelError, HttpChannel, HttpClient
from streaming.serve.alerting.config import WebhookConfig
from streaming.serve.alerting.render import SAMPLE, TEMPLATE_ERRORS, AlertMessage, Texts, neutral, sandbox

_SECOND_MS = 1_000


class Signature(NamedTuple):
    """A proof that the sender of a message knows the secret."""

    query: Mapping[str, str] = {}
    """Parameters added to the address."""
    fields: Mapping[str, str] = {}
    """Fields added to the body."""


class Service(NamedTuple):
    """A chat service."""

    body: Callable[[str], dict[str, Any]]
    """Makes the body for a text."""
    bytes_max: int
    """The longest text that it accepts, in UTF-8."""
    codes: tuple[str, ...] = ()
    """The names that the code may have in its answer; 0: accepted. Empty: the HTTP status says all."""
    rejected: frozenset[int] = frozenset()
    """The codes that reject the content, so that a retry is useless."""
    sign: Callable[[str, int], Signature] | None = None
    """Signs with a secret at a time (epoch milliseconds); None: it knows no signatures."""


def text_of(message: AlertMessage, bytes_max: int) -> str:
    """Return the text of a message; one that is too long is cut before its link."""
    text = f"{message.title}\n{message.body}"
    if len(text.encode()) <= bytes_max:
        return text
    end = f"…\n{message.link}"
    return text.encode()[: bytes_max - len(end.encode())].decode("utf-8", "ignore") + end


def refusal(service: Service, answer: bytes) -> tuple[int | None, str] | None:
    """Return the code and text with which a message was refused; None if it was accepted."""
    if not service.codes:
        return None
    try:
        said = msgspec.json.decode(answer, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        said = {}
    code = next((said[name] for name in service.codes if isinstance(said.get(name), int)), None)
    if code is None:
        return None, "answered without a code: is this the address of its robot?"
    return None if code == 0 else (code, str(said.get("errmsg") or said.get("msg") or ""))


def _dingtalk_signature(secret: str, now: int) -> Signature:
    sign = hmac.digest(secret.encode(), f"{now}\n{secret}".encode(), "sha256")
    return Signature(query={"timestamp": str(now), "sign": base64.b64encode(sign).decode()})


def _lark_signature(secret: str, now: int) -> Signature:
    seconds = str(now // _SECOND_MS)
    sign = hmac.digest(f"{seconds}\n{secret}".encode(), b"", "sha256")
    return Signature(fields={"timestamp": seconds, "sign": base64.b64encode(sign).decode()})


_LARK = Service(
    lambda text: {"msg_type": "text", "content": {"text": text}},
    18_000,
    ("code", "StatusCode"),
    frozenset({9499, 19002}),
    _lark_signature,
)
SERVICES: Mapping[str, Service] = {
    "dingtalk": Service(
        lambda text: {"msgtype": "text", "text": {"content": text}},
        18_000,
        ("errcode",),
        frozenset({40035, 400105, 430101, 430102, 430103, 430104}),
        _dingtalk_signature,
    ),
    "wecom": Service(
        lambda text: {"msgtype": "text", "text": {"content": text}},
        2_048,
        ("errcode",),
        frozenset({40008, 40058, 44004, 45002}),
    ),
    "lark": _LARK,
    "feishu": _LARK,
    "slack": Service(lambda text: {"text": escape(text, quote=False), "mrkdwn": False}, 30_000),
}
"""Services by the name of the setting."""


def with_fields(body: bytes, signature: Signature) -> bytes:
    """Return a JSON body with the signature's fields."""
    return msgspec.json.encode(json.loads(body) | dict(signature.fields)) if signature.fields else body


class Webhook(HttpChannel):
    """A webhook."""

    def __init__(self, config: WebhookConfig) -> None:
        """Read the secrets and test the template.

        Raises:
            UserError: one of them is invalid.
        """
        self._template = _template(config.template) if config.template is not None else None
        self._http = HttpClient(config.url, "", config.headers, config.timeout)
        self._name = config.service or ""
        self._service = SERVICES.get(self._name)
        self._secret = config.sign.read() if config.sign is not None else None

    def send(self, message: AlertMessage, now: int) -> None:
        """Post a message."""
        try:
            body = self._body(message)
        except TEMPLATE_ERRORS as error:
            raise ChannelError(f"the template failed: {error}", rejected=True) from None
        if self._service is None:
            self._http.post(body, message.key)
        else:
            self._chat(self._service, body, message.key, now)

    def _body(self, message: AlertMessage) -> bytes:
        if self._template is not None:
            return _made(self._template, message)
        if self._service is not None:
            return msgspec.json.encode(self._service.body(text_of(message, self._service.bytes_max)))
        return msgspec.json.encode(message)

    def _chat(self, service: Service, body: bytes, key: str, now: int) -> None:
        signature = service.sign(self._secret, now) if service.sign and self._secret else Signature()
        answer = self._http.post(with_fields(body, signature), key, signature.query)
        if refused := refusal(service, answer):
            code, text = refused
            said = text if code is None else f"{code} {self._http.redacted(text)}"
            raise ChannelError(f"{self._name} {said}".rstrip(), rejected=code in service.rejected)


def _template(path: str) -> Template:
    try:
        template = sandbox().from_string(Path(path).read_text("utf-8"))
        sample = Delivery("sample", "sample", (SAMPLE,), summary=False, attempt=1)
        _made(template, Texts("", "http://127.0.0.1").message(sample))
    except (OSError, UnicodeDecodeError):
        raise UserError(f"Cannot read the webhook template {path}: correct the channel's `template`.") from None
    except TEMPLATE_ERRORS as error:
        raise UserError(f"Invalid webhook template {path}: {error}.") from None
    return template


def _made(template: Template, message: AlertMessage) -> bytes:
    texts = {"title": message.title, "body": message.body}  # in which names are neutral already
    text = template.render(message=neutral(msgspec.to_builtins(message)) | texts)
    json.loads(text)  # raises ValueError if invalid
    return text.encode()
