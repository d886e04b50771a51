"""The limits of a broker's hook, from its Java source."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

from streaming.collect import broker_hook

_SOURCE = Path(broker_hook.__file__).with_name("rebalancewatch") / "Limits.java"
_LIMIT = re.compile(r"/\*\*((?:(?!\*/).)*)\*/\s+static final int (\w+) = ([\d_ <]+);", re.DOTALL)
_FOUND = _LIMIT.findall(_SOURCE.read_text("utf-8"))


def _value(text):
    """Return the value of a number or of a shift, such as `4 << 20`."""
    number, _, shift = text.partition("<<")
    return ast.literal_eval(number.strip()) << int(shift or 0)


HOOK = SimpleNamespace(**{name: _value(text) for _, name, text in _FOUND})
"""The limits by their names in Java."""
MEANINGS = {name: " ".join(text.replace("*", "").split()) for text, name, _ in _FOUND}
"""Their meanings, by the same names."""
