"""Some of what `make fuzz` sends for minutes: hostile requests of every kind, by count."""

from pathlib import Path

import pytest

from tests.fuzz.effort import TIMES
from tests.fuzz.resources import KINDS, SETTINGS, WORKERS, Siege
from tests.support.service_process import Service

pytestmark = pytest.mark.thorough

ATTACKS = 2 * len(KINDS) * TIMES // WORKERS + 1
"""Of each attacker: every kind comes about twice."""


def test_hostile_requests_neither_fill_the_memory_nor_end_the_service(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", **SETTINGS).start()
    siege = Siege(service, seed=1)
    try:
        siege.run(lambda sent: sent >= ATTACKS)
        assert not siege.wrong(), siege.account()
        assert siege.watcher.asked
        service.learn("after", [1.0], 1)
        assert service.stats("after")["rounds"]["revealed"] == 1
    finally:
        service.close()
