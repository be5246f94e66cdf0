"""Every answer of the service, as the clients read it: the same fields, the same types, in every state of a model."""

import types
from datetime import datetime
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from novikoff import schemas
from novikoff.schemas import FeedbackAnswer, LearnAnswer, PredictAnswer, Stats, StatsLine, StatsPage
from tests.support.service_process import Service

MANY = 60


def options_of(hint: Any) -> set[Any]:
    """The types that a field may have; what a list has in it counts, and what an annotation adds does not."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return set().union(*map(options_of, get_args(hint)))
    if origin is list:
        return set().union(*map(options_of, get_args(hint))) | {list}
    if origin is not None and hasattr(hint, "__metadata__"):
        return options_of(hint.__origin__)
    if origin is not None:  # literals, dictionaries
        return (
            {type(get_args(hint)[0])} if get_args(hint) and isinstance(get_args(hint)[0], str) else {origin}
        )
    return {hint}


def known(struct: Any) -> dict[str, Any]:
    hints = get_type_hints(struct)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(struct)}


NOT_ASKED_FOR = {StatsLine: set(Stats.__struct_fields__), schemas.DryRun: {"prediction_id", "ask"}}
"""Fields that `fleet` does without, and those that a dry run never has."""

NULL_IF_ASKED = {
    (schemas.Prediction, "explanation"),
    (schemas.DryRun, "explanation"),
    (schemas.Prediction, "prediction_id"),
}
"""What is null only where the clients do not ask for it, or of a dry run, which has an answer of its own."""

READ_AS = {int: {float}, str: {datetime}, Any: {bool, int, str}}
"""What may become another type in reading. Labels are checked by a function there, by their type here."""


def assert_fits(schema: Any, struct: Any, where: str) -> None:
    """The client knows each field that the service sends, and needs none that it does not."""
    server, client = get_type_hints(schema), known(struct)
    assert client.keys() - {"replayed"} <= server.keys(), where
    assert server.keys() - NOT_ASKED_FOR.get(struct, set()) <= client.keys(), where
    for name in server.keys() & client.keys():
        theirs, ours = options_of(server[name]), options_of(client[name])
        assert types.NoneType not in theirs or types.NoneType in ours or (struct, name) in NULL_IF_ASKED, (
            f"{where}.{name}"
        )
        for each in theirs - {types.NoneType, msgspec.UnsetType}:
            if not each.__module__.startswith(("novikoff.", "service.")):
                assert ours & ({each} | READ_AS.get(each, set())), f"{where}.{name}: {each}"
                continue
            (partner,) = (own for own in ours if issubclass(own, msgspec.Struct))
            assert_fits(each, partner, f"{where}.{name}")


@pytest.mark.parametrize(
    ("schema", "struct"),
    [
        (StatsPage, schemas.Fleet),
        (PredictAnswer, schemas.Prediction),
        (PredictAnswer, schemas.DryRun),
        (FeedbackAnswer, schemas.Outcome),
        (LearnAnswer, schemas.Learned),
    ],
)
def test_the_types_of_the_client_are_those_of_the_service(schema: Any, struct: Any) -> None:
    assert_fits(schema, struct, struct.__name__)


def plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def drop_times(report: dict[str, Any]) -> dict[str, Any]:
    """Without what depends on when one asks, or is told with other digits."""
    windows = {name: of for name, of in report["windows"].items() if name.startswith("last")}
    return {name: of for name, of in report.items() if not name.endswith("_at")} | {"windows": windows}


def learn_all(service: Service, name: str, examples: list[tuple[list[float], Any]]) -> None:
    told = service.stream([{"features": features, "label": label} for features, label in examples], name)
    assert len(told) == len(examples) and not any("error" in line for line in told)


def two_classes(service: Service, name: str) -> None:
    learn_all(service, name, [([1.0, float(i % 3)], 1 if i % 2 else -1) for i in range(20)])


def sixty_classes(service: Service, name: str) -> None:
    service.create(name, labels=[f"label {i}" for i in range(MANY)])
    learn_all(service, name, [([float(i % 7), 1.0], f"label {i % MANY}") for i in range(2 * MANY)])


def sixty_classes_of_numbers(service: Service, name: str) -> None:
    service.create(name, labels=list(range(MANY)))
    learn_all(service, name, [([float(i % 7), 1.0], i) for i in range(MANY)])


def classes_that_appear(service: Service, name: str) -> None:
    service.create(name, labels=None)
    service.predict(name, [1.0])


def no_rounds(service: Service, name: str) -> None:
    service.create(name)


def no_dimension(service: Service, name: str) -> None:
    service.create(name, features="named", labels=[False, True])
    service.predict(name, {"a": 1})


def no_bound(service: Service, name: str) -> None:
    service.create(name, learner={"rule": "margin"})
    service.learn(name, [1.0], 1)


def exceeded(service: Service, name: str) -> None:
    service.create(name, declared_margin=0.5)
    learn_all(service, name, [([1.0], 1 if i % 2 else -1) for i in range(200)])


def late_labels(service: Service, name: str) -> None:
    ids = [service.predict(name, [1.0, float(i)])["prediction_id"] for i in range(5)]
    for each in ids[:3]:
        service.reveal(each, -1)


STATES = [two_classes, sixty_classes, sixty_classes_of_numbers, classes_that_appear, no_rounds, no_dimension,
          no_bound, exceeded, late_labels]  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_what_the_service_sends_about_a_model_is_read_whole(
    client: Any, service: Service, name: str, state: Any
) -> None:
    state(service, name)
    told = service.stats(name)
    read = plain(client.stats(name))
    if "largest" not in told["confusion"]:
        assert read["confusion"].pop("largest") is None
    assert drop_times(read) == drop_times(told)
    (line,) = client.fleet(name).models
    assert plain(line.rounds) == told["rounds"] and line.drift.state == told["drift"]["state"]
    assert client.get_model(name).settings == service.get(f"/models/{name}")["settings"]
    assert plain(client.weights(name)) == {**service.get(f"/models/{name}/weights"), "expert": None}
    assert [each.model for each in client.list_models(name)] == [name]
