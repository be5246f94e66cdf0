"""POST /predict, /feedback, /learn: the protocol over HTTP."""

from collections.abc import Iterator
from functools import partial
from itertools import accumulate, count, repeat
from typing import Annotated, Any

import msgspec

from service.engine.model.checks import LabelSent, plain_label
from service.engine.model.labels import Labels
from service.engine.model.outcomes import BlockOutcome, Round
from service.engine.names import NAME_CHARS_MAX, NAME_PATTERN, NAME_RULE, PREDICTION_ID_PATTERN, TAG_CHARS_MAX
from service.engine.rounds.explanation import Answered
from service.errors import InvalidRequest
from service.events import Label
from service.learning.parameters import LEAST
from service.web.access.declarations import ROUND
from service.web.access.tenants import TenantRounds
from service.web.http.bodies import Header
from service.web.routes.endpoint import Endpoint

# The engine checks names, and only those that it has not seen before; this is for the document.
Name = Annotated[
    str,
    msgspec.Meta(
        description=NAME_RULE, extra_json_schema={"pattern": NAME_PATTERN, "maxLength": NAME_CHARS_MAX}
    ),
]
PredictionId = Annotated[
    str,
    msgspec.Meta(
        description="as /predict has answered it, or the `id` that was sent with it",
        extra_json_schema={"pattern": PREDICTION_ID_PATTERN, "maxLength": NAME_CHARS_MAX},
    ),
]
# What is in an object is checked by the model's kind of features, which can say which name is wrong.
FeaturesSent = (
    list[float]
    | Annotated[
        dict[str, Any],
        msgspec.Meta(
            extra_json_schema={
                "additionalProperties": {
                    "anyOf": [
                        {"type": "number"},
                        {"type": "boolean"},
                        {"type": "string"},
                        {"type": "array", "items": {"type": "string"}},
                    ]
                }
            }
        ),
    ]
)

Weight = Annotated[
    float,
    msgspec.Meta(description="how often the reveal counts", extra_json_schema={"minimum": LEAST}),
]
Tag = Annotated[
    str | None,
    msgspec.Meta(
        description="a word of yours by which the round is found again: whose it is, say",
        extra_json_schema={"maxLength": TAG_CHARS_MAX},
    ),
]
Probability = Annotated[
    float | None,
    msgspec.Meta(
        description="the chance that the label is right, by an estimate; null before the first reveal"
    ),
]

QUICK_PATHS = frozenset({"/predict", "/feedback", "/learn"})

check_label = plain_label
REPLAYED: tuple[Header, ...] = ((b"idempotent-replay", b"true"),)


class PredictBody(msgspec.Struct, forbid_unknown_fields=True):
    model: Name
    features: FeaturesSent
    id: Name | None = None
    explain: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    min_version: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    dry: Annotated[
        bool, msgspec.Meta(description="look only: no model is made, and nothing waits for a label")
    ] = False
    tag: Tag = None


class FeedbackBody(msgspec.Struct, forbid_unknown_fields=True):
    prediction_id: PredictionId
    label: LabelSent
    weight: Weight = 1.0


class LearnBody(msgspec.Struct, forbid_unknown_fields=True):
    model: Name
    features: FeaturesSent
    label: LabelSent
    id: Name | None = None
    weight: Weight = 1.0
    tag: Tag = None


class Contribution(msgspec.Struct):
    feature: int | str
    value: float
    weight: float
    contribution: float


ServedSet = Annotated[
    list[Label] | msgspec.UnsetType | None,
    msgspec.Meta(
        description="of a model with a `coverage`: the labels that are not ruled out; null: any label"
    ),
]


class PredictAnswer(msgspec.Struct, omit_defaults=True):
    prediction_id: Annotated[str | None, msgspec.Meta(description="null for a dry run")]
    model: str
    label: Label | None
    score: float
    probability: Probability
    version: int
    set: ServedSet = msgspec.UNSET
    ask: Annotated[
        bool | msgspec.UnsetType,
        msgspec.Meta(description="of a model with `ask`: whether the label is asked for"),
    ] = msgspec.UNSET
    ask_probability: float | msgspec.UnsetType = msgspec.UNSET
    explanation: list[Contribution] | None = None
    expert: Annotated[
        str | msgspec.UnsetType,
        msgspec.Meta(
            description="with an explanation by a model of `auto`: the expert that weighs most, whose score it is"
        ),
    ] = msgspec.UNSET
    served_by: Annotated[
        str | msgspec.UnsetType,
        msgspec.Meta(description="of a model with challengers: the name of the learner whose label it is"),
    ] = msgspec.UNSET


class FeedbackAnswer(msgspec.Struct, gc=False):
    prediction_id: str | None
    model: str
    predicted: Label | None
    label: Label
    mistake: bool
    updated: bool
    version: int
    rounds: int
    mistakes: int


class LearnAnswer(FeedbackAnswer, gc=False):
    score: float
    probability: Probability
    set: ServedSet = msgspec.UNSET


def endpoints(
    rounds: TenantRounds, *, body_bytes_max: int, inflated_ratio_max: int, items_max: int
) -> dict[str, Endpoint[Any]]:
    """The three routes by their paths."""

    async def predict(body: PredictBody) -> tuple[object, tuple[Header, ...]]:
        """Predict a label.

        The prediction waits for its label under its `prediction_id`. Sent again with the same `id` and the
        same features, it is answered as the first time. An unknown model is made with the default settings.
        With `min_version` the model is waited for until it has come to that version: what another replica
        has learned arrives a moment later. A `dry` run tells what would be served and changes nothing.
        """
        if body.min_version:
            await rounds.reach(body.model, body.min_version)
        if body.dry:
            if body.id is not None:
                raise InvalidRequest.at("id", "must not be sent with `dry`: nothing will wait for a label")
            served = await rounds.dry_run(body.model, body.features, body.explain)
        else:
            served = await rounds.predict(body.model, body.features, body.id, body.explain, body.tag)
        answer = predict_answer(served)
        if body.explain:
            answer.explanation = [Contribution(*term) for term in served.explanation]
            if served.expert is not None:
                answer.expert = served.expert
        return answer, ()

    async def feedback(body: FeedbackBody) -> tuple[object, tuple[Header, ...]]:
        """Reveal the true label of a prediction.

        The model learns it once: a retry gets the first answer again. The answer comes when the reveal is
        durable and applied.
        """
        done = await rounds.reveal(body.prediction_id, check_label(body.label), body.weight)
        return feedback_answer(done), REPLAYED if done.replayed else ()

    async def learn(body: LearnBody) -> tuple[object, tuple[Header, ...]]:
        """A whole round in one call: predict, then learn the label.

        With an `id`, a retry is not learned twice. A model with `ask` does not count it among the predictions that it
        could have asked about: its label is here already.
        """
        label = check_label(body.label)
        done = await rounds.learn(body.model, body.features, label, body.id, body.weight, body.tag)
        return learn_answer(done), REPLAYED if done.replayed else ()

    endpoint = partial(
        Endpoint,
        access=ROUND,
        body_bytes_max=body_bytes_max,
        inflated_ratio_max=inflated_ratio_max,
        items_max=items_max,
    )
    return {
        "/predict": endpoint(PredictBody, PredictAnswer, predict, statuses=(410,)),
        "/feedback": endpoint(FeedbackBody, FeedbackAnswer, feedback, statuses=(410,), replays=True),
        "/learn": endpoint(LearnBody, LearnAnswer, learn, replays=True),
    }


def predict_answer(served: Answered) -> PredictAnswer:
    p, certainty = served.prediction, served.prediction.certainty
    probability = certainty.probability if certainty is not None else None
    answer = PredictAnswer(p.prediction_id or None, p.model, p.served, p.score, probability, p.version)
    if served.serves_sets:
        answer.set = served.set
    if certainty is not None and certainty.ask_probability is not None:
        if served.ask is not None:
            answer.ask = served.ask
        if served.ask is not None or not p.prediction_id:  # a dry run has no label that could be asked for
            answer.ask_probability = certainty.ask_probability
    if certainty is not None and certainty.lineup is not None:
        answer.served_by = certainty.lineup.served_by
    return answer


def feedback_answer(done: Round) -> FeedbackAnswer:
    o = done.outcome
    return FeedbackAnswer(
        done.prediction_id, done.model, done.predicted, done.label,
        o.mistake, o.updated, o.version, o.rounds, o.mistakes,
    )  # fmt: skip


def learn_answer(done: Round) -> LearnAnswer:
    o = done.outcome
    return LearnAnswer(
        done.prediction_id, done.model, done.predicted, done.label,
        o.mistake, o.updated, o.version, o.rounds, o.mistakes, o.score, o.probability, done.set,
    )  # fmt: skip


def block_answers(
    model: str, known: Labels, labels: list[Label], outcome: BlockOutcome
) -> Iterator[LearnAnswer]:
    """The answers to the rounds of a block."""
    o = outcome
    served = [*known.values, None]  # -1 is none
    mistakes = accumulate(o.mistake, initial=o.mistakes_before)
    next(mistakes)
    return map(
        LearnAnswer, repeat(None), repeat(model), map(served.__getitem__, o.served), labels,
        o.mistake, o.updated, count(o.version_before + 1), count(o.rounds_before + 1), mistakes, o.scores,
        o.probabilities, repeat(msgspec.UNSET) if o.sets is None else map(o.labels_in, o.sets),
    )  # fmt: skip
