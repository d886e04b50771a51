"""Check that a new schema accepts everything that an old one accepted, and still has every field.

Compatible: a new optional field, a new event type or table, a wider range or choice. Incompatible: a removed field or
type, a narrower one, a new required field. A keyword that this check doesn't know is an error, so that no change
passes unchecked.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

_ANYTHING = "anything"


class Schema(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={
        "dialect": "$schema",
        "reference": "$ref",
        "definitions": "$defs",
        "any_of": "anyOf",
        "additional": "additionalProperties",
        "min_length": "minLength",
        "max_length": "maxLength",
        "min_items": "minItems",
        "max_items": "maxItems",
        "encoding": "contentEncoding",
    },
):
    """The part of JSON Schema that msgspec writes."""

    type: str | None = None
    format: str | None = None
    encoding: str | None = None
    enum: tuple[str, ...] | None = None
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    items: Schema | None = None
    properties: dict[str, Schema] = {}
    required: tuple[str, ...] = ()
    additional: Schema | None = None
    any_of: tuple[Schema, ...] = ()
    reference: str | None = None
    definitions: dict[str, Schema] = {}
    # Annotations for readers, without effect on validity.
    dialect: str | None = None
    title: str | None = None
    description: str | None = None
    default: msgspec.Raw = msgspec.Raw()
    discriminator: msgspec.Raw = msgspec.Raw()


def incompatibilities(old: Schema, new: Schema) -> list[str]:
    """Return a sentence for everything that the new schema no longer accepts or provides; empty if compatible."""
    return list(_Comparison(old.definitions, new.definitions).compare("$", old, new))


class _Comparison:
    """The comparison of two documents. No type refers to itself, so following references ends."""

    def __init__(self, old: dict[str, Schema], new: dict[str, Schema]) -> None:
        self._old = old
        self._new = new

    def compare(self, path: str, old: Schema, new: Schema) -> Iterator[str]:
        candidates = _alternatives(new, self._new)
        for alternative in _alternatives(old, self._old):
            kind = _kind(alternative)
            judged = [
                list(self._one(path, alternative, other)) for other in candidates if _kind(other) in (kind, _ANYTHING)
            ]
            yield from min(judged, key=len, default=[f"{path}: {kind} is no longer accepted"])

    def _one(self, path: str, old: Schema, new: Schema) -> Iterator[str]:
        yield from _narrower(path, old, new)
        for name, field in old.properties.items():
            if name not in new.properties:
                yield f"{path}.{name}: the field was removed"
            else:
                yield from self.compare(f"{path}.{name}", field, new.properties[name])
        for name in new.required:
            if name not in old.required:
                is_new = name not in old.properties
                yield f"{path}.{name}: {'a new field is required' if is_new else 'the field became required'}"
        for mark, inner, outer in (("[]", old.items, new.items), ("{}", old.additional, new.additional)):
            if outer is not None:
                yield from self.compare(path + mark, inner or Schema(), outer)


def _alternatives(schema: Schema, definitions: dict[str, Schema]) -> tuple[Schema, ...]:
    """Return the schema's alternatives, with references and unions resolved."""
    if schema.reference is not None:
        return _alternatives(definitions[schema.reference.removeprefix("#/$defs/")], definitions)
    if schema.any_of:
        return tuple(found for member in schema.any_of for found in _alternatives(member, definitions))
    return (schema,)


def _kind(schema: Schema) -> str:
    """Return the key by which alternatives are matched: the JSON type, and the tag of an event."""
    tag = schema.properties.get("type")
    if tag is not None and tag.enum is not None:
        return f"the type {', '.join(tag.enum)}"
    return schema.type or ("string" if schema.enum is not None else _ANYTHING)


def _narrower(path: str, old: Schema, new: Schema) -> Iterator[str]:
    if new.enum is not None:
        lost = [value for value in old.enum or () if value not in new.enum]
        if old.enum is None or lost:
            yield f"{path}: only {', '.join(new.enum)} is accepted now"
    if new.format not in (None, old.format) or new.encoding != old.encoding:
        yield f"{path}: the format is {new.format or new.encoding} now"
    for word, before, now, tighter in (
        ("minimum", old.minimum, new.minimum, 1),
        ("minLength", old.min_length, new.min_length, 1),
        ("maximum", old.maximum, new.maximum, -1),
        ("maxLength", old.max_length, new.max_length, -1),
        ("minItems", old.min_items, new.min_items, 1),
        ("maxItems", old.max_items, new.max_items, -1),
    ):
        if now is not None and (before is None or (now - before) * tighter > 0):
            yield f"{path}: {word} is {now} now, it was {before}"
