"""The schema of a table in Delta, with what it means: a comment for each column, and the table's description.

Another program that opens a table shows the meanings (``DESCRIBE TABLE EXTENDED`` in Spark,
`DeltaTable.schema` in Python). A column inside a list has none of its own: releases compare the types of columns with
their own, and a comment is part of the type there. The comment of the list has them.
"""

import pyarrow as pa
from deltalake import DeltaTable, Field
from deltalake import Schema as DeltaSchema

from schemas.arrow import arrow_schema
from schemas.meanings import meaning_of, meanings_of
from streaming.base.errors import UserError

_COMMENT = "comment"


def commented_schema(table: str) -> pa.Schema:
    """Return the schema with which a table is created.

    Raises:
        KeyError: the table does not exist.
    """
    comments = meanings_of(table)
    return pa.schema([field.with_metadata({_COMMENT: comments[field.name]}) for field in arrow_schema(table)])


def bring_up_to_date(delta: DeltaTable, table: str) -> None:
    """Add the columns and comments that a table of an older release lacks; existing rows have null in new columns.

    No data is written: all of it is one commit, two with another description, and one more for each comment that was
    another one.

    Raises:
        UserError: a column has another type than in this release.
    """
    existing = {field.name: field for field in delta.schema().fields}
    lacking, changed = [], []
    for field in DeltaSchema.from_arrow(commented_schema(table)).fields:
        old = existing.get(field.name)
        if old is None:
            lacking.append(Field(field.name, field.type, nullable=True, metadata=field.metadata))
        elif old.type != field.type:
            raise UserError(
                f"The table {table} was made by another release: its column {field.name} has another type. Start that "
                "release again, or this one under a new runtime.root, which reads the log from its beginning."
            )
        elif _COMMENT not in old.metadata:
            metadata = {**old.metadata, **field.metadata}
            lacking.append(Field(field.name, old.type, nullable=old.nullable, metadata=metadata))
        elif old.metadata[_COMMENT] != field.metadata[_COMMENT]:
            changed.append(field)
    if lacking:
        delta.alter.add_columns(lacking)
    for field in changed:
        delta.alter.set_column_metadata(field.name, {**existing[field.name].metadata, **field.metadata})
    if delta.metadata().description != meaning_of(table):
        delta.alter.set_table_description(meaning_of(table))
