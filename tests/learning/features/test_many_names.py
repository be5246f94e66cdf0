"""A million distinct names break neither a named model nor a hashed one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.learning.rounds import LEARNERS, PAIRS, STRATEGIES, Model, named_rounds
from tests.support.tiers import covering


def a_million_names() -> Iterator[tuple[dict[str, Any], int]]:
    """A thousand examples of a thousand names each, none of which comes back; one name tells the class."""
    for i in range(1000):
        sent: dict[str, Any] = {f"name {i} {j}": 1.0 for j in range(999)}
        sent["tells"] = 40.0 if i % 2 else -40.0
        yield sent, i % 2


@pytest.mark.parametrize(
    ("features", "size"),
    [({"kind": "named", "names_max": 5000}, 5001), ({"kind": "hashed", "bits": 14}, 2**14 + 1)],
)
@pytest.mark.slow
def test_a_million_names_do_not_break_a_model(features: dict[str, Any], size: int) -> None:
    model = Model({"algorithm": "pa1", "C": 0.01}, features=features)
    kept = []
    for i, (sent, truth) in enumerate(a_million_names()):
        model.reveal(sent, truth, 0)
        if i in (99, 999):
            kept.append(len(model.to_bytes()))
    assert len(model.weights()) == model.features.size() == size
    assert np.isfinite(model.weights()).all()
    assert model.features.ignored_names == (999 * 1000 + 1 - 5000 if features["kind"] == "named" else 0)
    assert kept[1] - kept[0] < 16  # but for the digits of two counts
    assert [model.predict({"tells": value})[0] for value in (40.0, -40.0)] == [1, 0]


def test_learning_names_one_by_one_is_not_quadratic() -> None:
    """The room doubles: most new names cause no copy."""
    model = Model({"algorithm": "averaged"}, "one_vs_all", 3, "named")
    moves = 0
    place = None
    for i in range(3000):
        model.reveal({f"name {i}": 1.0}, i % 3, 0)
        base = model.classifier.learner._room  # type: ignore[attr-defined]
        moves += base is not place
        place = base
    assert moves < 20
    assert len(model.weights(0)) == 3001


@pytest.mark.parametrize(
    ("learner", "way"),
    covering(
        [pair for pair in PAIRS if not pair[0].endswith("full") and not pair[1].endswith("appearing")],
        pytest.mark.slow,
    ),
)
def test_the_state_of_a_large_model_is_as_large_as_what_it_has_learned(learner: str, way: str) -> None:
    name, classes, _ = STRATEGIES[way]
    rounds = named_rounds(40, STRATEGIES[way][2])

    def build() -> Model:
        return Model(LEARNERS[learner], name, classes, {"kind": "hashed", "standardize": True}, 1.0)

    model = build().run(rounds[:20])
    data = model.to_bytes()
    assert len(data) < 100_000 < 8 * 2**18
    restored = build()
    restored.restore(data, model.classes)
    assert restored.run(rounds[20:]).to_bytes() == model.run(rounds[20:]).to_bytes()
