"""The README and docs/ say what is so: their tables are compared with the code."""

import json
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic.fields import FieldInfo

from bench import accuracy, auto_accuracy
from bench.streams import data_sets, shipped
from service.errors import NovikoffError
from service.learning.classes import strategies
from service.learning.features import kinds as feature_kinds
from service.learning.learners import algorithms
from service.learning.panel.panels import FORMS, NEWEST, PANELS
from service.learning.parameters import Parameter
from service.settings import PREFIX, Settings
from service.web.problems import PROBLEMS
from service.web.routes.model_settings import ADVICE, ModelSettings
from tests.support.markdown import CONTRIBUTING, DOCS, NOTES, PAGES, README, ROOT, blocks_of, rows_of, section
from tests.support.service_process import Service

SETTING_PAGE, MODEL_PAGE, PROBLEM_PAGE = DOCS["settings.md"], DOCS["models.md"], DOCS["problems.md"]

UNDOCUMENTED_BY_OPENAPI = {"GET /", "GET /docs", "GET /openapi.json"}
MAP_WIDTH = 33
"""How many characters of a line of the map in CONTRIBUTING are names; what they are stands behind."""


# Settings


def shown(default: object) -> str:
    """A default as one would write it into the environment.

    >>> shown(True), shown(20.0), shown(1e100), shown(3.2e9), shown(20_000)
    ('true', '20', '1e100', '3.2e9', '20000')
    """
    if isinstance(default, bool):
        return str(default).lower()
    return re.sub(r"e\+0*", "e", f"{default:g}") if isinstance(default, float) else str(default)


def values(field: FieldInfo) -> str:
    """What a setting may be set to, in words."""
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(field.annotation))
    if field.annotation is bool:
        return "`true`, `false`"
    limits = {
        name: shown(getattr(limit, name))
        for limit in field.metadata
        for name in ("gt", "ge", "le")
        if hasattr(limit, name)
    }
    low = f"above {limits['gt']}" if "gt" in limits else f"at least {limits['ge']}" if "ge" in limits else ""
    high = f"at most {limits['le']}" if "le" in limits else ""
    return ", ".join(filter(None, (low, high))) or "any"


def default_of(field: FieldInfo) -> str:
    if field.default_factory is not None:  # a share of the memory, in words
        assert isinstance(field.json_schema_extra, dict)
        return str(field.json_schema_extra["default"])
    return f"`{shown(field.default)}`" if field.default != "" else ""


def test_the_page_of_settings_has_each_with_its_default_its_range_and_its_help() -> None:
    expected = [
        [
            f"`{name}`",
            f"`{PREFIX}{name.upper()}`",
            default_of(field),
            values(field),
            field.description,
        ]
        for name, field in Settings.model_fields.items()
    ]
    table = "\n".join("| " + " | ".join(map(str, row)) + " |" for row in expected)
    assert rows_of(section("Every setting", SETTING_PAGE)) == expected, f"the table ought to be:\n{table}"


def test_the_documented_defaults_are_what_the_environment_would_be_read_as() -> None:
    fixed = {
        name: field.default for name, field in Settings.model_fields.items() if not field.default_factory
    }
    rows = {
        name.strip("`"): default.strip("`")
        for name, _, default, *_ in rows_of(section("Every setting", SETTING_PAGE))
    }
    read = Settings.model_validate_strings({name: rows[name] for name in fixed}).model_dump()
    assert {name: read[name] for name in fixed} == fixed


def test_the_page_of_settings_tells_what_the_budgets_come_to() -> None:
    table = rows_of(section("Memory", SETTING_PAGE))
    for row in table:
        amount, unit = row[0].split()
        settings = Settings(memory_bytes=int(amount) * {"MiB": 2**20, "GiB": 2**30}[unit])
        budgets = ("models_loaded", "connections", "pending", "copies", "outcomes", "fit_memory", "upload")
        found = [getattr(settings, f"{name}_bytes_max") for name in budgets]
        assert row[1:] == [str(round(each / 2**20)) for each in found], row[0]


@pytest.mark.slow
def test_the_page_of_models_lists_every_setting_with_its_default(service: Service, name: str) -> None:
    settings = service.create(name)["settings"]
    rows = rows_of(section("Settings", MODEL_PAGE))
    documented = {row[0].strip("`"): json.loads(row[1].strip("`")) for row in rows}
    assert documented == flat({field: settings[field] for field in ModelSettings.model_fields})


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """
    >>> flat({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c': [2]}
    """
    found: dict[str, Any] = {}
    for name, value in settings.items():
        is_nested = isinstance(value, dict) and bool(value)
        found |= flat(value, f"{prefix}{name}.") if is_nested else {prefix + name: value}
    return found


def parameters(owners: Mapping[str, Mapping[str, Parameter]]) -> list[list[str]]:
    """A row for each parameter: its name, whose it is, its default, its range and its help."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for owner, owned in owners.items():
        for name, parameter in owned.items():
            default = re.sub(r"\.0$", "", json.dumps(parameter.default))
            rows.setdefault((f"`{name}`", f"`{default}`", parameter.range, parameter.help), []).append(
                f"`{owner}`"
            )
    return [
        [name, ", ".join(of), default, values, text] for (name, default, values, text), of in rows.items()
    ]


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Learners", [[f"`{one.name}`", one.summary] for one in algorithms.ALGORITHMS.values()]),
        ("Parameters", parameters({one.name: one.parameters for one in algorithms.ALGORITHMS.values()})),
        (
            "Several classes",
            [[f"`{w.name}`", w.summary, f"{w.classes_max:,}"] for w in strategies.STRATEGIES.values()],
        ),
        ("Options", parameters(feature_kinds.KINDS)),
        ("Fourier features", parameters({"fourier": feature_kinds.FOURIER})),
    ],
)
def test_the_page_of_models_says_what_the_catalogues_say(heading: str, expected: list[list[str]]) -> None:
    table = "\n".join("| " + " | ".join(row) + " |" for row in expected)
    assert rows_of(section(heading, MODEL_PAGE)) == expected, f"the table ought to be:\n{table}"


def test_the_advice_is_the_same_on_the_page_of_models_and_on_docs_and_its_settings_make_models(
    service: Service, name: str
) -> None:
    assert rows_of(section("Which settings for which data", MODEL_PAGE)) == [each.row for each in ADVICE]
    told = service.get("/openapi.json")["paths"]["/models"]["post"]["description"]
    assert rows_of(told) == [each.row for each in ADVICE]
    for number, each in enumerate(ADVICE):
        service.create(f"{name}.{number}", **each.settings)


def test_the_page_of_models_lists_the_experts_of_the_newest_panel_and_what_they_see() -> None:
    experts = PANELS[NEWEST].experts
    expected = [[expert.name, f"`{expert.learner['algorithm']}`", FORMS[expert.form]] for expert in experts]
    assert rows_of(section("Auto", MODEL_PAGE)) == expected
    assert len(expected) == 6 and re.search(r"Six\s+experts", MODEL_PAGE)


# Routes and problems


def test_the_page_of_the_api_lists_exactly_the_routes_there_are(service: Service) -> None:
    document = service.get("/openapi.json")
    routes = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    documented = [
        f"{method} {path}"
        for methods, path in re.findall(r"`([A-Z/]+) (/[^`\s]*)`", section("Routes", DOCS["api.md"]))
        for method in methods.split("/")
    ]
    assert sorted(documented) == sorted(routes | UNDOCUMENTED_BY_OPENAPI)
    for route in UNDOCUMENTED_BY_OPENAPI:
        assert service.client.get(route.removeprefix("GET ")).status_code == 200


def test_every_problem_is_documented_with_its_status_and_title() -> None:
    expected = [[f"`{code}`", str(status), title] for code, (status, title) in PROBLEMS.items()]
    assert [row[:3] for row in rows_of(section("Answers", PROBLEM_PAGE))] == expected
    assert all(len(row) == 4 and row[3] for row in rows_of(section("Answers", PROBLEM_PAGE)))


def test_every_error_that_has_a_code_of_its_own_is_documented() -> None:
    def codes(error: type[NovikoffError]) -> set[str]:
        own = {error.code} if "code" in vars(error) else set()
        return own.union(
            *(codes(kind) for kind in error.__subclasses__() if kind.__module__ == "service.errors")
        )

    at_start = {row[0].strip("`") for row in rows_of(section("At the start", PROBLEM_PAGE))}
    assert codes(NovikoffError) - {NovikoffError.code} - PROBLEMS.keys() == at_start


def test_the_documents_name_only_problems_that_exist_with_their_statuses() -> None:
    assert re.search(r"\b409 `feedback-conflict`", README)
    for page in PAGES:
        for status, code in re.findall(r"\b(\d{3}) `([a-z-]+)`", page.read_text()):
            assert code in PROBLEMS and PROBLEMS[code][0] == int(status), f"{page.name}: {status} {code}"


# What was measured


def test_the_table_of_speed_has_the_figures_of_the_last_measurement() -> None:
    figures = {row[1].split()[0] for row in rows_of(section("Speed", NOTES))}
    results = section("By themselves", (ROOT / "bench" / "results.md").read_text())
    assert len(figures) > 5 and figures <= {row[1].split()[0] for row in rows_of(results)}


@pytest.mark.slow
def test_our_learners_err_as_often_as_the_table_of_accuracy_says() -> None:
    table = section("Learner by learner", NOTES)
    head = next(line for line in table.splitlines() if line.startswith("|"))
    names = [cell.strip() for cell in head.strip("|").split("|")][1:]
    rows = {row[0].strip("`"): dict(zip(names, row[1:], strict=True)) for row in rows_of(table)}
    ours = rows.keys() & algorithms.ALGORITHMS.keys()
    assert len(ours) >= 8
    for name, rounds in islice(data_sets(), 2):
        classes = len({truth for _, truth in rounds})
        for learner in ours:
            contestant = accuracy.CONTESTANTS[learner](classes, len(rounds[0][0]))
            assert contestant is not None
            error = accuracy.error(contestant, rounds)
            assert rows[learner][name] == f"{100 * error:.1f} %", f"{learner} on {name}"


def test_auto_is_as_right_as_the_table_of_accuracy_says_and_never_a_point_behind() -> None:
    rows = {row[0].split(" (")[0]: row[1:] for row in rows_of(section("Auto", NOTES))}
    assert rows.keys() >= shipped().keys()
    assert all(float(rows[name][2]) >= -1.0 for name in shipped())
    for name in ("iris", "wine"):
        right = auto_accuracy.accuracy(accuracy.Auto, shipped()[name]())
        assert rows[name][0] == f"{right:.1f}", name


# The documents among themselves


def words(*pages: str) -> int:
    return sum(len(page.split()) for page in pages)


def test_the_readme_and_the_docs_are_short() -> None:
    assert words(README) <= 900
    assert words(*DOCS.values()) <= 30_000


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)[#)]", README))
    assert linked == DOCS.keys()


def test_the_index_of_how_to_links_every_answer() -> None:
    page = DOCS["how-to.md"]
    index, _, answers = page.partition("\n## ")
    headings = re.findall(r"^## (.*)$", f"## {answers}", re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert sorted(re.findall(r"\]\(#([\w-]+)\)", index)) == sorted(anchors)


def test_every_test_that_the_page_on_security_names_exists() -> None:
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", DOCS["security.md"])
    assert len(named) > 10
    for file, test in named:
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), (
            f"{file}::{test}"
        )


def test_every_path_that_the_documents_name_exists() -> None:
    folders = "bench|deploy|docs|examples|monitoring|service|tests"
    for page in PAGES:
        if page.name != "CHANGELOG.md":  # which tells of what has been
            for path in re.findall(rf"`((?:{folders})/[\w./-]*)", page.read_text()):
                assert (ROOT / path).exists(), f"{page.name}: {path}"
    for path in re.findall(r"`([\w.-]+/[\w./-]*|[\w-]+\.(?:py|md|toml|txt))`", CONTRIBUTING):
        assert (ROOT / path).exists(), f"CONTRIBUTING.md: {path}"


def test_the_map_of_the_tree_is_that_of_the_tree() -> None:
    (block,) = blocks_of(section("Where things are", CONTRIBUTING))
    within, shown = [ROOT], set[Path]()
    for line in block.text.splitlines():
        names = line[:MAP_WIDTH].split()
        depth = (len(line) - len(line.lstrip())) // 2
        shown |= {within[depth] / name for name in names}
        within[depth + 1 :] = [within[depth] / names[0]]
    assert not [path for path in shown if not path.exists()]
    rooms = {
        path.parent for path in (*ROOT.glob("service/*/__init__.py"), *ROOT.glob("service/*/*/__init__.py"))
    }
    assert {room for room in rooms if room.parent.name != "commands"} <= shown


def test_the_walk_through_a_reveal_names_functions_that_are_where_it_says() -> None:
    steps = rows_of(section("One reveal, from socket to answer", CONTRIBUTING))
    assert len(steps) > 10
    for file, where, _ in steps:
        for name in where.strip("`").split("."):
            source = (ROOT / file.strip("`")).read_text()
            assert re.search(rf"^ *(class|(async )?def) {name}\b", source, re.MULTILINE), f"{file}: {where}"


def test_every_fenced_block_of_json_is_json() -> None:
    for page in PAGES:
        for block in blocks_of(page.read_text()):
            if block.language == "json":
                json.loads(block.text)


def test_every_link_between_the_documents_leads_somewhere() -> None:
    def anchors(page: Path) -> set[str]:
        headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
        return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            assert file.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(file), f"{page.name}: {target}"
