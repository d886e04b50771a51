from typing import Annotated, Literal

import msgspec
import pytest

from schemas.json_schema import FOLDER, Schema, documents, incompatibilities, main


class Tick(msgspec.Struct, tag="TICK"):
    time: int


def schema(**fields) -> Schema:
    """The schema of a Struct with these fields; a value is a type, or a type with its default."""
    parts = [(name, *(declared if isinstance(declared, tuple) else (declared,))) for name, declared in fields.items()]
    return schema_of(msgspec.defstruct("Row", parts, kw_only=True))


def schema_of(declared) -> Schema:
    (root,), definitions = msgspec.json.schema_components([declared], ref_template="#/$defs/{name}")
    return msgspec.json.decode(msgspec.json.encode({**root, "$defs": definitions}), type=Schema)


def limited(kind, **limits):
    return Annotated[kind, msgspec.Meta(**limits)]


def choice(*values):
    return Literal[values]


INNER = msgspec.defstruct("Inner", [("a", int), ("b", int)])
SMALLER_INNER = msgspec.defstruct("Inner", [("a", int)])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": int}, {"a": int}),
        ({"a": int}, {"a": int, "b": (str, "")}),
        ({"a": int}, {"a": (int, 0)}),
        ({"a": int}, {"a": int | None}),
        ({"a": limited(int, ge=0)}, {"a": int}),
        ({"a": limited(int, ge=0, le=9)}, {"a": limited(int, ge=-1, le=10)}),
        ({"a": limited(tuple[int, ...], min_length=2, max_length=3)}, {"a": limited(tuple[int, ...], max_length=4)}),
        ({"a": choice("x")}, {"a": choice("x", "y")}),
        ({"a": choice("x")}, {"a": str}),
        ({"a": tuple[SMALLER_INNER, ...]}, {"a": tuple[msgspec.defstruct("Inner", [("a", int), ("b", int, 0)]), ...]}),
    ],
)
def test_what_keeps_every_old_value_is_compatible(old, new):
    assert incompatibilities(schema(**old), schema(**new)) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ({"a": int, "b": int}, {"a": int}, "$.b: the field was removed"),
        ({"a": int}, {"a": int, "b": int}, "$.b: a new field is required"),
        ({"a": (int, 0)}, {"a": int}, "$.a: the field became required"),
        ({"a": int | None}, {"a": int}, "$.a: null is no longer accepted"),
        ({"a": int}, {"a": str}, "$.a: integer is no longer accepted"),
        ({"a": int}, {"a": limited(int, ge=0)}, "$.a: minimum is 0 now, it was None"),
        ({"a": limited(int, ge=-1)}, {"a": limited(int, ge=0)}, "$.a: minimum is 0 now, it was -1"),
        ({"a": limited(int, le=9)}, {"a": limited(int, le=8)}, "$.a: maximum is 8 now, it was 9"),
        ({"a": str}, {"a": limited(str, min_length=1)}, "$.a: minLength is 1 now, it was None"),
        ({"a": str}, {"a": limited(str, max_length=9)}, "$.a: maxLength is 9 now, it was None"),
        ({"a": choice("x", "y")}, {"a": choice("x")}, "$.a: only x is accepted now"),
        ({"a": str}, {"a": choice("x")}, "$.a: only x is accepted now"),
        ({"a": str}, {"a": bytes}, "$.a: the format is base64 now"),
        ({"a": tuple[INNER, ...]}, {"a": tuple[SMALLER_INNER, ...]}, "$.a[].b: the field was removed"),
        ({"a": dict[str, int]}, {"a": dict[str, str]}, "$.a{}: integer is no longer accepted"),
    ],
)
def test_what_loses_an_old_value_is_named(old, new, problem):
    assert incompatibilities(schema(**old), schema(**new)) == [problem]


def test_an_event_type_may_come_but_not_go():
    class Lost(msgspec.Struct, tag="LOST"):
        time: int

    single, both = schema_of(Tick), schema_of(Tick | Lost)

    assert incompatibilities(single, both) == []
    assert incompatibilities(both, single) == ["$: the type LOST is no longer accepted"]


def test_a_keyword_that_is_not_judged_is_an_error():
    with pytest.raises(msgspec.ValidationError, match="exclusiveMinimum"):
        schema(a=limited(int, gt=0))


@pytest.mark.parametrize("name", documents())
def test_the_committed_document_is_the_current_one(name):
    """If this fails: `python -m schemas.json_schema` writes it, or says what the change breaks."""
    assert (FOLDER / name).read_bytes() == documents()[name]


def test_a_break_is_not_written_unless_meant(tmp_path, monkeypatch, capsys):
    (tmp_path / "events.schema.json").write_bytes(
        documents()["events.schema.json"].replace(b'"required": [', b'"required": [\n"gone",', 1)
        .replace(b'"properties": {', b'"properties": {"gone": {"type": "string"},', 1)
    )  # fmt: skip
    monkeypatch.setattr("schemas.json_schema.FOLDER", tmp_path)

    assert main([]) == 1
    assert "gone: the field was removed" in capsys.readouterr().err
    assert not (tmp_path / "tables.schema.json").exists()

    assert main(["--breaking"]) == 0
    assert main([]) == 0
