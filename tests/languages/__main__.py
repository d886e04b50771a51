"""Brings the catalogues to the texts of the sources, and lists what is to be translated.

python -m tests.languages
"""

import sys

from streaming.base.language import ENGLISH, LANGUAGES
from tests.languages.catalogues import brought_up_to_date, path_of, untranslated, written


def main():
    """Write each catalogue with every text and none that is unused, and print those without a translation."""
    lacking = False
    for language in LANGUAGES:
        if language == ENGLISH:
            continue
        catalogue = brought_up_to_date(language)
        path_of(language).write_bytes(written(catalogue))
        missing = untranslated(catalogue)
        sys.stdout.write(f"{path_of(language)}: {len(catalogue)} texts, {len(missing)} to translate\n")
        for text in missing:
            sys.stdout.write(f"  {text}\n")
        lacking |= bool(missing)
    sys.exit(1 if lacking else 0)


if __name__ == "__main__":
    main()
