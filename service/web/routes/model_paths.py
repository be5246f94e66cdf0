"""POST /models/{model}/predict, /feedback, /learn: the protocol with the model in the path, for proxies to route by.

They answer as the paths without a model do, and take the same bodies, in which the model may be left out.
"""

import re
from contextvars import ContextVar
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec

from novikoff.schemas import (
    NAME_PATTERN,
    FeedbackAnswer,
    FeedbackBody,
    LearnAnswer,
    LearnBody,
    Name,
    PredictAnswer,
    PredictBody,
)
from service.engine.names import check_name
from service.errors import InvalidRequest
from service.web.access.declarations import ROUND
from service.web.access.tenants import TenantRounds
from service.web.http.bodies import Header, Receive, Scope, Send
from service.web.http.responding import respond_with
from service.web.routes.endpoint import Body, Endpoint
from service.web.routes.rounds import QUICK_PATHS, REPLAYED, check_label, feedback_answer

PREFIX = "/models/{model}"

MODEL_PATH = re.compile(f"/models/({NAME_PATTERN[1:-1]})/(predict|feedback|learn|stream)")
"""These paths with a model whose name is plain; the router finds the others and has them refused."""

SameModel = Annotated[Name | None, msgspec.Meta(description="if it is here, too, it is that of the path")]

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
    """An endpoint whose path has a model in it, which whoever calls it has put into `path_params`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> int:
        model = scope["path_params"]["model"]
        try:
            check_name("model", model)  # here, or many in one would be refused one by one
        except InvalidRequest as error:
            return await respond_with(send, error)
        _model.set(model)
        return await super().__call__(scope, receive, send)


def endpoints(
    rounds: TenantRounds,
    plain: dict[str, Endpoint[Any]],
    *,
    body_bytes_max: int,
    inflated_ratio_max: int,
    items_max: int,
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

    endpoint = partial(
        ModelEndpoint,
        access=ROUND,
        body_bytes_max=body_bytes_max,
        inflated_ratio_max=inflated_ratio_max,
        items_max=items_max,
    )
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
    service.errors.InvalidRequest: model: must be that of the path, or be left out
    """
    if also is not None and also != model:
        raise InvalidRequest.at("model", "must be that of the path, or be left out")
    return model
