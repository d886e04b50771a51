"""READMEs with generated parts: each stands between two comments that name it."""

import re

from tests.docs.parts import PARTS

BEGIN, END = "<!-- generated: {name}; python -m tests.docs -->\n", "<!-- end: {name} -->\n"


def current(readme):
    """Return a README's text with its generated parts as they should be."""
    text = readme.read_text("utf-8")
    for name, made in PARTS[readme].items():
        begin, end = BEGIN.format(name=name), END.format(name=name)
        head, found, rest = text.partition(begin)
        _, ended, tail = rest.partition(end)
        if not (found and ended):
            raise ValueError(f"{readme} has no part {name}: write {begin.strip()} and {end.strip()} into it")
        text = head + begin + "\n" + "\n".join(made()) + "\n\n" + end + tail
    return text


def by_hand(text):
    """Return what people have written in a README: without its generated parts and its blocks of code."""
    text = re.sub(r"<!-- generated: .*?<!-- end: \w+ -->", "", text, flags=re.DOTALL)
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
