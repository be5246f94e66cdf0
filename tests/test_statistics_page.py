"""docs/statistics.md defines what the service tells, in the words of the code."""

import re

from msgspec import inspect

from novikoff.schemas import Stats
from service.learning.statistics import STATISTICS, Statistics
from tests.support.markdown import ROOT, rows_of, section


def fields_of(kind: inspect.Type) -> set[str]:
    """The names of all fields in the answer, of those within fields too."""
    match kind:
        case inspect.StructType(fields=fields):
            return {field.encode_name for field in fields}.union(*(fields_of(f.type) for f in fields))
        case inspect.ListType(item_type=inner) | inspect.Metadata(type=inner):
            return fields_of(inner)
        case inspect.UnionType(types=types):
            return set().union(*map(fields_of, types))
    return set()


def test_the_page_on_statistics_defines_every_number_and_no_other() -> None:
    page = (ROOT / "docs" / "statistics.md").read_text()
    fields = fields_of(inspect.type_info(Stats))
    named = {word for code in re.findall(r"`([^`]+)`", page) for word in re.findall(r"\w+", code)}
    assert fields <= named, f"docs/statistics.md says nothing of {fields - named}"
    first_cells = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    defined = {word for cell in first_cells for word in re.findall(r"\w+", cell)}
    assert defined <= fields, f"/stats does not have {defined - fields}"


def test_the_page_of_statistics_defines_every_number_as_the_code_does() -> None:
    page = (ROOT / "docs" / "statistics.md").read_text()
    documented = {
        row[0].replace("`", ""): row[1]
        for heading in re.findall(r"^## (.*)$", page, re.MULTILINE)
        for row in rows_of(section(heading, page))
    }
    defined = {
        number: text
        for kind in (Statistics, *STATISTICS.values())
        for number, text in kind.DEFINITIONS.items()
    }
    assert {name: documented.get(name) for name in defined} == defined
