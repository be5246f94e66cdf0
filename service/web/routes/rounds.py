"""POST /predict, /feedback, /learn: the protocol over HTTP; also with the model in the path, for proxies to route by.

With a model in the path, requests and responses are the same, and the model may be left out of the body.
"""

import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from itertools import accumulate, count, repeat
from typing import Annotated, Any, TypeVar

import msgspec

from novikoff.schemas import (
    NAME_PATTERN,
    Contribution,
    FeedbackAnswer,
    FeedbackBody,
    Label,
    LearnAnswer,
    LearnBody,
    Name,
    PredictAnswer,
    PredictBody,
)
from service.engine.models.checks import plain_label
from service.engine.models.labels import Labels
from service.engine.models.outcomes import BlockOutcome, Round
from service.engine.names import check_name
from service.engine.rounds.explanation import Answered
from service.errors import InvalidRequest
from service.web.access.declarations import ROUND
from service.web.access.tenants import TenantRounds
from service.web.http.requests import Header, Receive, RequestLimits, Scope, Send
from service.web.http.responses import respond_with
from service.web.routes.endpoint import Body, Endpoint

QUICK_PATHS = frozenset({"/predict", "/feedback", "/learn"})

check_label = plain_label
REPLAYED: tuple[Header, ...] = ((b"idempotent-replay", b"true"),)


def endpoints(
    rounds: TenantRounds, limits: RequestLimits, traced: Callable[[Any], Any] = lambda handle: handle
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
                raise InvalidRequest.at("id", "must not be sent with `dry`: no prediction is stored")
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

    endpoint = partial(Endpoint, access=ROUND, limits=limits)
    return {
        "/predict": endpoint(PredictBody, PredictAnswer, traced(predict), statuses=(410,)),
        "/feedback": endpoint(FeedbackBody, FeedbackAnswer, traced(feedback), statuses=(410,), replays=True),
        "/learn": endpoint(LearnBody, LearnAnswer, traced(learn), replays=True),
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


PREFIX = "/models/{model}"

MODEL_PATH = re.compile(f"/models/({NAME_PATTERN[1:-1]})/(predict|feedback|learn|stream)")
"""These paths with a model whose name is plain; the router finds the others and has them refused."""

SameModel = Annotated[Name | None, msgspec.Meta(description="optional; must equal that of the path")]

_model: ContextVar[str] = ContextVar("model")
"""The model in the path of the request."""


class PredictInModel(PredictBody, kw_only=True, forbid_unknown_fields=True):
    model: SameModel = None  # type: ignore[assignment]  # `_named` fills it in


class FeedbackInModel(FeedbackBody, kw_only=True, forbid_unknown_fields=True):
    model: SameModel = None


class LearnInModel(LearnBody, kw_only=True, forbid_unknown_fields=True):
    model: SameModel = None  # type: ignore[assignment]  # `_named` fills it in


InModel = TypeVar("InModel", PredictInModel, FeedbackInModel, LearnInModel)


class QuickPaths:
    """The paths whose requests may be read without the parser: each is looked up once for a head, then remembered.

    >>> "/learn" in QuickPaths(), "/models/spam/learn" in QuickPaths(), "/models/spam/stream" in QuickPaths()
    (True, True, False)
    """

    def __contains__(self, path: object) -> bool:
        if path in QUICK_PATHS:
            return True
        found = MODEL_PATH.fullmatch(path) if isinstance(path, str) else None
        return found is not None and found[2] != "stream"


class ModelEndpoint(Endpoint[Body]):
    """An endpoint whose path has a model in it, which the caller has put into `path_params`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> int:
        model = scope["path_params"]["model"]
        try:
            check_name("model", model)  # here, or many in one would be refused one by one
        except InvalidRequest as error:
            return await respond_with(send, error)
        _model.set(model)
        return await super().__call__(scope, receive, send)


def endpoints_in_models(
    rounds: TenantRounds, plain: dict[str, Endpoint[Any]], limits: RequestLimits
) -> dict[str, Endpoint[Any]]:
    """The three routes by their paths; `plain` are those without a model in them."""

    async def predict(body: PredictInModel) -> tuple[object, tuple[Header, ...]]:
        """Predict a label, with the model in the path.

        For proxies that route by it. All else is as with /predict.
        """
        return await plain["/predict"].handle(_named(body))

    async def feedback(body: FeedbackInModel) -> tuple[object, tuple[Header, ...]]:
        """Reveal the true label of a prediction, with the model in the path.

        For proxies that route by it. A prediction of another model is unknown here; all else is as with /feedback.
        """
        model = _named(body).model
        done = await rounds.reveal(body.prediction_id, check_label(body.label), body.weight, model)
        return feedback_answer(done), REPLAYED if done.replayed else ()

    async def learn(body: LearnInModel) -> tuple[object, tuple[Header, ...]]:
        """A whole round in one call, with the model in the path.

        For proxies that route by it. All else is as with /learn.
        """
        return await plain["/learn"].handle(_named(body))

    endpoint = partial(ModelEndpoint, access=ROUND, limits=limits)
    return {
        f"{PREFIX}/predict": endpoint(PredictInModel, PredictAnswer, predict, statuses=(410,)),
        f"{PREFIX}/feedback": endpoint(
            FeedbackInModel, FeedbackAnswer, feedback, statuses=(410,), replays=True
        ),
        f"{PREFIX}/learn": endpoint(LearnInModel, LearnAnswer, learn, replays=True),
    }


def _named(body: InModel) -> InModel:
    """The body with the model of the path; InvalidRequest if it names another one."""
    body.model = model_of_path(_model.get(), body.model)
    return body


def model_of_path(model: str, also: str | None) -> str:
    """The model of the path; InvalidRequest if the rest of the request names another one.

    >>> model_of_path("spam", None), model_of_path("spam", "spam")
    ('spam', 'spam')
    >>> model_of_path("spam", "ham")
    Traceback (most recent call last):
    service.errors.InvalidRequest: model: must equal that of the path, or be left out
    """
    if also is not None and also != model:
        raise InvalidRequest.at("model", "must equal that of the path, or be left out")
    return model
