"""Texts from elsewhere in messages: no name of a group, topic or client mentions anybody or becomes markup.

Anybody may name a consumer group ``<at user_id="all">``, which mentions everybody in Lark, ``<!channel>`` (Slack),
``@everyone`` (Discord), or ``[ok](http://…)`` (Markdown: Teams, DingTalk, Lark). A name is therefore changed as little
as takes that meaning from it in all of them, whichever channel the message is for: services change their markup, and
Apprise has more than a hundred. What a template itself says is not changed, so it may mention somebody.
"""

import re
from collections.abc import Mapping
from typing import Any

BROKEN = "\N{ZERO WIDTH SPACE}"
"""Stands after an @ that mentions nobody."""
_MENTION = re.compile(r"(?<![\w.-])@(?=[\w*])|@(?=everyone|here)")
"""An @ that begins a word, as none in ``10.0.0.5@orders-1`` and ``Orders@broker-a:3`` does; Discord takes these two
anywhere."""


def neutral(value: Any) -> Any:
    """Return a value in which no text has control characters, a mention or a link."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {name: neutral(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [neutral(one) for one in value]
    return value


def _text(text: str) -> str:
    line = text if text.isprintable() else "".join(one if one.isprintable() else " " for one in text)
    line = line.replace("<", "\N{FULLWIDTH LESS-THAN SIGN}").replace("](", "] (")
    return _MENTION.sub(f"@{BROKEN}", line) if "@" in line else line
