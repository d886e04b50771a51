"""Read and write the catalogues."""

import io
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from streaming.base.language import catalogue_file
from tests.languages.texts import Text, every_text


def path_of(language: str) -> Path:
    """Return the file of a language."""
    return Path(str(catalogue_file(language)))


def read(language: str) -> Catalog:
    """Return the catalogue of a language; an empty one if it has none yet."""
    path = path_of(language)
    if not path.exists():
        return Catalog(locale=language, fuzzy=False)
    with path.open("rb") as file:
        return read_po(file, locale=language)


def brought_up_to_date(language: str) -> Catalog:
    """Return the catalogue with every text of the sources, and none that they lack."""
    catalogue = read(language)
    made = Catalog(locale=language, fuzzy=False)
    for text in sorted(every_text(), key=_first):
        found = catalogue.get(_first(text))
        said = found.string if found is not None and found.id == text else None
        made.add(text, said)
    return made


def _first(text: Text) -> str:
    return text if isinstance(text, str) else text[0]


def written(catalogue: Catalog) -> bytes:
    """Return a catalogue as the content of its file."""
    head = (
        f"# Texts in {catalogue.locale.english_name}: `python -m tests.languages` adds new ones, removes unused ones.\n"
    )
    file = io.BytesIO()
    write_po(file, catalogue, width=0, omit_header=True)
    return (
        f'{head}msgid ""\nmsgstr ""\n"Language: {catalogue.locale_identifier}\\n"\n'
        f'"Content-Type: text/plain; charset=utf-8\\n"\n"Plural-Forms: {catalogue.plural_forms}\\n"\n\n'
    ).encode() + file.getvalue()


def untranslated(catalogue: Catalog) -> list[Text]:
    """Return the texts without a translation."""
    return [one.id for one in catalogue if one.id and not (all(one.string) if one.pluralizable else one.string)]
