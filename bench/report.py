"""The results as a page of Markdown."""

import re
from collections.abc import Iterable

from bench.figures import Bench, Figure
from bench.load import tool
from bench.scale import QUICK

QUICK_WARNING = "**A quick run, of the harness rather than of the service: these figures mean nothing.**"

REACHED = {True: "yes", False: "**no**", None: "–"}


def page(machine: dict[str, str], figures: list[Figure], bench: Bench, minutes: float) -> str:
    scale = bench.scale
    return "\n".join(
        [
            "# Results",
            "",
            *([QUICK_WARNING, ""] if scale is QUICK else []),
            f"Written by `python -m bench` in {minutes:.1f} minutes. The median of {scale.repetitions} repetitions of "
            f"{scale.seconds:g} s, the least and the most in brackets; what is compared was measured in turn, and a "
            "ratio is that of the same turn. 64 features, `durability: power`, load by "
            f"{tool()} from another process on the same machine.",
            "",
            *_table(("", ""), machine.items()),
            "",
            "## Figures",
            "",
            *_table(
                ("", "what", "ratio", "measured", "target", "reached"),
                (
                    (
                        f.name,
                        f.what,
                        f"**{f.ratio}**" if f.ratio else "–",
                        f.measured,
                        f.target,
                        REACHED[f.reached],
                    )
                    for f in figures
                ),
            ),
            "",
            "## By themselves",
            "",
            *_table(
                ("what", "", ""),
                ((name, str(samples), unit) for name, (samples, unit) in bench.absolute.items()),
            ),
            "",
            "## Notes",
            "",
            *(f"- {note}" for note in [*map(without_paths, bench.notes), *NOTES]),
            "",
        ]
    )


NOTES = (
    "Examples are 64 numbers with all their digits, one label in twenty wrong; feedback in turn says of one "
    "prediction in ten that it was a mistake.",
    "The peers' servers run under the same uvicorn settings as the service (uvloop, httptools, no access log). "
    "Nothing that they do is kept on disk, except by chantilly, which does not wait for the disk.",
    "Clients, servers and the process that writes the journal share the machine's cores.",
    "Memory is the resident memory of the service and of its writing process, what they share counted twice.",
    "CPU is that of the service's process (user and system) over many answers, divided by their number.",
)


def without_paths(text: str) -> str:
    """A reason as it can be published.

    >>> without_paths("no /tmp/a/b.py for /stats here")
    'no b.py for /stats here'
    """
    return re.sub(r"(?<![\w:/])/(?:[^\s/]+/)+", "", text).replace("|", "/")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
