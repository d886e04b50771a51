"""READMEs with generated parts: each stands between two comments that name it."""

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
