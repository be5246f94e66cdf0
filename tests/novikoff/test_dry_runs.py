"""A dry run over the clients: what would be served, and nothing changed by it."""

from typing import Any

import numpy as np
import pytest

from novikoff import DryRun, Refused
from tests.novikoff.conftest import Connect
from tests.novikoff.faulty import FaultyProxy
from tests.support.service_process import Service


def test_a_dry_run_is_what_would_be_served_and_waits_for_nothing(
    client: Any, service: Service, name: str
) -> None:
    client.create_model(name, coverage=0.8, ask={"b": 1.0}, challengers={"arow": {}})
    for label in (1, -1, -1):
        client.learn(name, [1.0, 2.0], label)
    before = service.stats(name), service.get(f"/models/{name}/export")
    tried = client.dry_run(name, [1.0, 2.0], explain=2, min_version=3)
    assert isinstance(tried, DryRun) and not hasattr(tried, "prediction_id")
    assert (service.stats(name)["rounds"], service.get(f"/models/{name}/export")) == (
        before[0]["rounds"],
        before[1],
    )
    assert list(client.pending(name)) == []
    made = client.predict(name, [1.0, 2.0], explain=2)
    for field in tried.__struct_fields__:
        assert getattr(tried, field) == getattr(made, field), field
    assert tried.set is not None and tried.ask_probability is not None and tried.served_by == "original"
    assert len(tried.explanation) == 2 and tried.version == 3


def test_a_dry_run_makes_no_model(client: Any, name: str) -> None:
    with pytest.raises(Refused) as refused:
        client.dry_run(name, [1.0])
    assert (refused.value.code, refused.value.status) == ("unknown-model", 404)
    assert list(client.list_models(name)) == []


def test_a_dry_run_fixes_no_dimension_and_takes_names_and_numbers_of_numpy(client: Any, name: str) -> None:
    client.create_model(name)
    assert client.dry_run(name, np.array([1.0, 2.0, 3.0])).label == 1
    assert client.learn(name, [1.0, 2.0], -1).rounds == 1
    client.create_model(f"{name}.named", features="named", labels=None)
    assert client.dry_run(f"{name}.named", {"sender": "news"}).label is None


def test_a_dry_run_whose_answer_is_lost_is_asked_for_again(
    connect: Connect, service: Service, name: str
) -> None:
    service.learn(name, [1.0], -1)
    with FaultyProxy(service, "lost", "bad gateway") as proxy:
        assert connect(proxy.url).dry_run(name, [1.0]).label == -1
    assert len(proxy.seen) == 3
    assert service.stats(name)["rounds"]["pending"] == 0
