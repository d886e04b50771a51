"""Sentences that a reader must read twice, as far as a pattern finds them: first words of docstrings, and a dialect."""

import ast
import re

QUESTION_WORDS = frozenset({"What", "Whether", "How", "Where", "When", "Who", "Whose", "Whom", "Which", "Why"})
"""Words that begin no docstring at all."""
FIRST_WORDS = QUESTION_WORDS | {
    "As", "That", "By", "Its", "Those", "It", "This", "Since", "If", "Of", "On", "Neither", "Too",
}  # fmt: skip
"""Words that begin no docstring of the product: a verb or a noun does. That of a test may continue its name."""
DIALECT = re.compile(
    r"(?i:\b(anew|whoever|nobody's|stands? still|to be had|but once|in vain|all the same)\b)"
    r"|(?i:\b(goes|go|going|went|gone) on\b)"
    r"|(^|[.:] )(The same of|So who|Whom|Of what|Of which|Of whom|So (is|are|has|have|do|does)) "
)
"""Words and inversions of a private dialect."""
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def unclear_beginnings(tree, words=FIRST_WORDS):
    """Return (line, first line) of each docstring of a module, class or function that begins with one of the words."""
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, _DOCUMENTED) else None
        if text and (re.split(r"\W", text)[0] in words or text.startswith("The same")):
            yield node.body[0].lineno, text.split("\n")[0]


def in_dialect(where_and_text):
    """Return (where, words) of each text that has words of the dialect outside of backticks."""
    for where, text in where_and_text:
        match = DIALECT.search(re.sub("`[^`]*`", "`", text))
        if match:
            yield where, match[0]
