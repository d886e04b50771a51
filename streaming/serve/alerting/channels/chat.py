"""Chat services behind a webhook: what they are sent, how it is signed, and what their answers mean.

DingTalk, WeCom and Lark (Feishu) answer a message that they refuse with HTTP 200 and a code in the JSON. Apprise takes
that for a delivery, so that a wrong keyword or signature would lose alerts in silence.
"""

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from streaming.serve.alerting.render import AlertMessage

_SECOND_MS = 1_000


class Signature(NamedTuple):
    """What proves that a message is from who knows the secret."""

    query: Mapping[str, str] = {}
    """For the address."""
    fields: Mapping[str, str] = {}
    """For the body."""


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


def _slack_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
    "slack": Service(lambda text: {"text": _slack_text(text), "mrkdwn": False}, 30_000),
}
"""By the name of the setting."""


def with_fields(body: bytes, signature: Signature) -> bytes:
    """Return a JSON body with the signature's fields."""
    return msgspec.json.encode(json.loads(body) | dict(signature.fields)) if signature.fields else body
