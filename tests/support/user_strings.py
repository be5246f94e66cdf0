"""Every text that a person reads: `python -m tests.support.user_strings [FOLDER OR FILE …]` lists them.

Texts of Python are string literals with a space in them (messages, descriptions, help), docstrings and comments; of the
dashboard, the same of its modules and the text of its pages; of documents, their lines.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PLACES = (
    *("service", "novikoff", "docs", "examples", "deploy", "monitoring"),
    *(
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "docker-compose.yml",
        "Makefile",
        "Dockerfile",
    ),
)
SUFFIXES = {".py", ".js", ".html", ".md", ".yml", ".yaml", ".json", ".cfg", ""}


@dataclass(frozen=True, slots=True)
class Text:
    path: Path
    line: int
    kind: str
    """`message`, `docstring`, `comment` or `document`."""
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.words}"


def files(places: tuple[str, ...] = PLACES) -> list[Path]:
    found: list[Path] = []
    for place in map(Path, places):
        found += sorted(place.rglob("*")) if place.is_dir() else [place]
    return [path for path in found if path.is_file() and path.suffix in SUFFIXES]


def texts(path: Path) -> Iterator[Text]:
    source = path.read_text()
    if path.suffix == ".py":
        yield from _of_python(path, source)
    elif path.suffix == ".js":
        yield from _of_javascript(path, source)
    else:
        for number, line in enumerate(source.splitlines(), 1):
            yield Text(path, number, "document", line.strip())


def _of_python(path: Path, source: str) -> Iterator[Text]:
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings.add(id(node.value))
    parts = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)
    } - {id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            kind = "docstring" if id(node) in docstrings else "message"
            if kind == "docstring" or " " in node.value.strip():
                yield Text(path, node.lineno, kind, " ".join(node.value.split()))
        elif isinstance(node, ast.JoinedStr) and id(node) not in parts:
            words = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"
                for part in node.values
                if isinstance(part, ast.Constant | ast.FormattedValue)
            )
            if " " in words.strip():
                yield Text(path, node.lineno, "message", " ".join(words.split()))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(path, token.start[0], "comment", token.string.lstrip("# "))


_JAVASCRIPT = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<message>"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`)""", re.DOTALL
)


def _of_javascript(path: Path, source: str) -> Iterator[Text]:
    for match in _JAVASCRIPT.finditer(source):
        kind, words = str(match.lastgroup), match[0]
        if kind == "comment" or " " in words.strip('"`'):
            yield Text(path, source.count("\n", 0, match.start()) + 1, kind, " ".join(words.split()))


def main() -> None:
    for path in files(tuple(sys.argv[1:]) or PLACES):
        for text in texts(path):
            sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
