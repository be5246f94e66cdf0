"""What the commands find in their environment."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def no_authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("no-authorities")


@pytest.fixture(autouse=True)
def environment(no_authorities: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No authorities, which take 16 ms to load with each command: nobody speaks TLS here.

    And for services within a command: a shared machine's disk stands still for seconds at times.
    """
    monkeypatch.setenv("SSL_CERT_DIR", str(no_authorities))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("NOVIKOFF_QUEUE_SECONDS_MAX", "60")
