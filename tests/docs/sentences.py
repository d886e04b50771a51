"""Sentences that a reader must read twice, as far as a pattern finds them: their first words, and a dialect."""

import ast
import re
from itertools import pairwise

QUESTION_WORDS = frozenset({"What", "Whether", "How", "Where", "When", "Who", "Whose", "Whom", "Which", "Why"})
"""Words that begin no docstring at all."""
FIRST_WORDS = QUESTION_WORDS | {
    "As", "That", "By", "Its", "Those", "It", "This", "Since", "If", "Of", "On", "Neither", "Too",
}  # fmt: skip
"""Words that begin no docstring of the product: a verb or a noun does. That of a test may continue its name."""
FIELD_WORDS = frozenset({"What", "Whether", "How"})
"""Words that begin no description of a field: a noun does, or "True if"."""
DIALECT = re.compile(
    r"(?i:\b(anew|whoever|nobody's|stands? still|to be had|but once|in vain|all the same)\b)"
    r"|(?i:\b(goes|go|going|went|gone) on\b)"
    r"|(^|[.:] )(The same of|So who|Whom|Of what|Of which|Of whom|So (is|are|has|have|do|does)) "
)
"""Words and inversions of a private dialect."""
_ASSIGNED = (ast.Assign, ast.AnnAssign)
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def unclear_beginnings(tree, words=FIRST_WORDS):
    """Return (line, first line) of each docstring of a module, class or function that begins with one of the words."""
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, _DOCUMENTED) else None
        if text and _begins(text, words):
            yield node.body[0].lineno, text.split("\n")[0]


def unclear_fields(tree):
    """Return (line, first line) of each description of a field or constant that begins with one of `FIELD_WORDS`."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        below = (
            [one for before, one in pairwise(body) if isinstance(before, _ASSIGNED)] if isinstance(body, list) else []
        )
        texts = [one.value for one in below if isinstance(one, ast.Expr)]
        if isinstance(node, ast.keyword) and node.arg == "description":
            texts.append(node.value)
        for text in texts:
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and _begins(text.value, FIELD_WORDS):
                yield text.lineno, text.value.split("\n")[0]


def _begins(text, words):
    return re.split(r"\W", text)[0] in words or text.startswith("The same")


def in_dialect(where_and_text):
    """Return (where, words) of each text that has words of the dialect outside of backticks."""
    for where, text in where_and_text:
        match = DIALECT.search(re.sub("`[^`]*`", "`", text))
        if match:
            yield where, match[0]
