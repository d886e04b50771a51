"""Webhook: posts a message as JSON to an HTTP server, as it is or formatted by the user's template."""

import json
from pathlib import Path

import msgspec
from jinja2 import Template

from streaming.base.errors import UserError
from streaming.serve.alerting.alert import Delivery
from streaming.serve.alerting.channels.channel import ChannelError, HttpClient
from streaming.serve.alerting.config import WebhookConfig
from streaming.serve.alerting.render import SAMPLE, TEMPLATE_ERRORS, Message, Texts, sandbox


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

    def send(self, message: Message, now: int) -> None:
        """Post a message."""
        del now
        try:
            body = msgspec.json.encode(message) if self._template is None else _made(self._template, message)
        except TEMPLATE_ERRORS as error:
            raise ChannelError(f"the template failed: {error}", rejected=True) from None
        self._http.post(body, message.key)

    def stand(self, message: Message, now: int) -> None:
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


def _made(template: Template, message: Message) -> bytes:
    text = template.render(message=msgspec.to_builtins(message))
    json.loads(text)  # raises ValueError if invalid
    return text.encode()
