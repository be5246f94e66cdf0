"""Our documents, taken apart: sections, tables, fenced blocks."""

import re
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
NOTES = (ROOT / "bench" / "NOTES.md").read_text()
DOCS = {page.name: page.read_text() for page in sorted(ROOT.glob("docs/*.md"))}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    ROOT / "bench" / "NOTES.md",
    *sorted(ROOT.glob("docs/*.md")),
]


class Block(NamedTuple):
    """A fenced block: its language, its text, and the number of its first line."""

    language: str
    text: str
    line: int


def blocks_of(page: str) -> list[Block]:
    """
    >>> blocks_of("a\\n```sh\\nls\\n```\\n")
    [Block(language='sh', text='ls', line=3)]
    """
    found = re.finditer(r"^```(\w*)\n(.*?)\n```$", page, re.MULTILINE | re.DOTALL)
    return [Block(block[1], block[2], page.count("\n", 0, block.start()) + 2) for block in found]


def section(heading: str, page: str = README) -> str:
    """What stands under a heading, its own subsections included."""
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,2}} |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {heading!r}"
    return found[2]


def rows_of(text: str) -> list[list[str]]:
    """The cells of the first table in a text, without its head.

    >>> rows_of("| a | b |\\n|---|---|\\n| `c` | d |\\n")
    [['`c`', 'd']]
    """
    lines = dropwhile(lambda line: not line.startswith("|"), text.splitlines())
    table = takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table][2:]
