"""Any HTTP server: a POST of JSON, the message as it is or as a template of the user's makes it."""

import json
from pathlib import Path

import msgspec
from jinja2 import Template

from streaming.alerting.alert import Delivery
from streaming.alerting.channels.channel import ChannelError, HttpClient
from streaming.alerting.config import WebhookConfig
from streaming.alerting.render import SAMPLE, TEMPLATE_ERRORS, Message, Texts, sandbox
from streaming.errors import UserError


class Webhook:
    """A webhook."""

    resend_ms = None

    def __init__(self, config: WebhookConfig) -> None:
        """Read the secrets, and try the template.

        Raises:
            UserError: one of them can't be used.
        """
        self._template = _template(config.template) if config.template is not None else None
        self._http = HttpClient(config.url, "", config.headers, config.timeout)

    def send(self, message: Message, now: int) -> None:
        """Post it."""
        del now
        try:
            body = msgspec.json.encode(message) if self._template is None else _made(self._template, message)
        except TEMPLATE_ERRORS as error:
            raise ChannelError(f"the template failed: {error}", rejected=True) from None
        self._http.post(body, message.key)

    def stand(self, message: Message, now: int) -> None:
        """Nothing: it is told news alone."""

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _template(path: str) -> Template:
    try:
        template = sandbox().from_string(Path(path).read_text("utf-8"))
        sample = Delivery("sample", "sample", (SAMPLE,), summary=False, attempt=1)
        _made(template, Texts("", "http://127.0.0.1").message(sample))
    except (OSError, UnicodeDecodeError):
        raise UserError(f"The webhook template {path} can't be read: correct the channel's `template`.") from None
    except TEMPLATE_ERRORS as error:
        raise UserError(f"The webhook template {path} can't be used: {error}.") from None
    return template


def _made(template: Template, message: Message) -> bytes:
    text = template.render(message=msgspec.to_builtins(message))
    json.loads(text)  # a ValueError if it is none
    return text.encode()
