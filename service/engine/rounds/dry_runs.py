"""Predictions that are only looked at: nothing waits for a label, and nothing changes."""

from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.models.checks import Sent
from service.engine.models.model import Model
from service.engine.rounds.examples import Examples
from service.engine.rounds.explanation import Answered, explain
from service.events import DimensionFixed, Prediction
from service.journal.codec import encode_state

NO_ID = ""
"""Of a prediction that cannot be revealed."""


class DryRuns:
    """Serves what a model says to an example, as it is now."""

    def __init__(self, fleet: Fleet, examples: Examples, clock: Clock) -> None:
        self._fleet = fleet
        self._examples = examples
        self._clock = clock

    async def predict(self, name: str, sent: Sent, terms: int = 0) -> Answered:
        """The prediction that a model would serve, under NO_ID; UnknownModel if there is no such model.

        A model whose dimension is not fixed yet answers as if this example had fixed it.
        """
        live = self._fleet.touch(name) or await self._fleet.get(name)
        model, at = live.model, self._clock.now()
        example = self._examples.read_only(model, sent)
        if model.features.dimension is None:
            model = Model.from_bytes(encode_state(model.state()))
            model.apply(DimensionFixed(name, at, len(example)))
            example = model.features.read(sent)
        served, score, certainty = model.predict(example)
        label, features = model.labels.label(served), model.features.encode(example)
        made = Prediction(NO_ID, name, at, features, label, score, model.version, model.updates, certainty)
        explanation = explain(model, example, terms) if terms else []
        expert = None if model.panel is None else model.panel.leader.name
        among = None if certainty is None else model.labels_in(certainty.set)
        return Answered(made, explanation, model.sets is not None, among, None, expert)
