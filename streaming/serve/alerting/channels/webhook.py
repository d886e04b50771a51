"""Webhook: posts a message as JSON to an HTTP server, as it is, for a chat service, or by the user's template."""

import json
from pathlib import Path

import msgspec
from jinja2 import Template

from streaming.base.errors import UserError
from streaming.serve.alerting.alert import Delivery
from streaming.serve.alerting.channels.channel import ChannelError, HttpClient
from streaming.serve.alerting.channels.chat import SERVICES, Service, Signature, refusal, text_of, with_fields
from streaming.serve.alerting.config import WebhookConfig
from streaming.serve.alerting.neutral import neutral
from streaming.serve.alerting.render import SAMPLE, TEMPLATE_ERRORS, AlertMessage, Texts, sandbox


class Webhook:
    """A webhook."""

    resend_ms = None

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

    def stand(self, message: AlertMessage, now: int) -> None:
        """Do nothing: only new alerts are sent."""

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


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
