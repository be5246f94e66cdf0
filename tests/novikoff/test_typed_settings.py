"""Type checkers know the settings of `create_model`: a misspelt one is an error before the program runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from novikoff.schemas import ModelSettings
from service.web.routes import model_settings

PROGRAM = """
from novikoff import AsyncClient, Client

def make(client: Client) -> None:
    client.create_model("m", {settings})

async def make_too(client: AsyncClient) -> None:
    await client.create_model("m", {settings})
"""


def test_the_typed_settings_are_those_of_the_service() -> None:
    assert ModelSettings.__annotations__.keys() == model_settings.ModelSettings.model_fields.keys()


@pytest.mark.slow
def test_mypy_refuses_a_misspelt_setting_and_takes_the_others(tmp_path: Path) -> None:
    found = []
    for settings in (
        'label=["a", "b"]',
        'labels=["a", "b"], learner={"algorithm": "auto"}, features="named"',
    ):
        program = tmp_path / "program.py"
        program.write_text(PROGRAM.format(settings=settings))
        checked = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", str(program)], capture_output=True, text=True
        )
        found.append(checked.stdout)
    refused, taken = found
    assert refused.count('Unexpected keyword argument "label"') == 2, refused
    assert "Success" in taken, taken
