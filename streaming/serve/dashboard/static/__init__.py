"""Scripts, styles and pictures of the pages: what a browser gets as it is."""

from pathlib import Path

STATIC = Path(__file__).parent
"""The folder: NiceGUI reads the scripts of components as files."""
