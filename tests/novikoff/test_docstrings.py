"""The examples in the docstrings of the client do what they say, against a real service."""

import inspect
import re
import textwrap
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
from river import datasets, evaluate, metrics

import novikoff
from tests.support.markdown import DOCS, section
from tests.support.service_process import Service

pytestmark = pytest.mark.slow

CODE = re.compile(r"\n\n((?: {4}.*\n?)+)")


def docstrings() -> dict[str, str]:
    """Those of the package, its modules, and the classes and functions that it offers, with the names of each."""
    modules = [
        novikoff,
        *(import_module(f"novikoff.{each.name}") for each in iter_modules(novikoff.__path__)),
    ]
    offered = [getattr(novikoff, name) for name in novikoff.__all__]
    methods = [method for kind in offered if inspect.isclass(kind) for method in vars(kind).values()]
    described: list[Any] = [*modules, *offered, *filter(inspect.isfunction, methods)]
    return {each.__name__: inspect.getdoc(each) or "" for each in described if hasattr(each, "__name__")}


def examples() -> dict[str, str]:
    found = {name: CODE.findall(text) for name, text in docstrings().items() if ">>>" not in text}
    return {name: textwrap.dedent("".join(blocks)) for name, blocks in found.items() if blocks}


def test_every_example_runs(start: Callable[..., Service]) -> None:
    service = start()
    assert {"novikoff", "RemoteModel"} <= examples().keys()
    with novikoff.Client(service.url) as client:
        for name, code in examples().items():
            print(name, code, sep="\n")
            known = {"client": client, "datasets": datasets, "evaluate": evaluate, "metrics": metrics}
            known |= {"Client": novikoff.Client, "RemoteModel": novikoff.RemoteModel}
            exec(code.replace("http://127.0.0.1:8000", service.url), known)
    assert service.stats("spam")["rounds"]["revealed"] == 1
    assert service.stats("phishing")["rounds"]["revealed"] == datasets.Phishing().n_samples


def test_the_programs_on_the_page_run_and_its_table_has_every_call(start: Callable[..., Service]) -> None:
    service = start()
    page = DOCS["python.md"]
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code.replace("http://localhost:8000", service.url), {})
    assert service.stats("letters")["rounds"]["revealed"] == 1
    assert service.stats("mails")["rounds"] == {"predicted": 6, "revealed": 3, "pending": 3, "expired": 0}
    table = section("Calls", page)
    methods = [
        name
        for name, _ in inspect.getmembers(novikoff.Client, inspect.isfunction)
        if not name.startswith("_")
    ]
    assert not [name for name in methods if f"`{name}`" not in table]
