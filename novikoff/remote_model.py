"""A model of the service with River's interface, so that River's own evaluation can run it."""

import sys
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from novikoff.calls import Features, make_id
from novikoff.client import Client
from novikoff.errors import Refused
from novikoff.schemas import Label, Prediction

WAITING_MAX = 10_000
NOT_GIVEN = frozenset(
    {"classes_max", "size_max", "weights_max", "rules", "champion", "challengers", "promote"}
)
"""What a model reports beside the settings that it was created with: limits of its service, and challengers."""
LOST_CODES = frozenset({"unknown-prediction", "prediction-expired"})
"""Problems of a prediction that the service has no more: then the example is learned as a whole round."""


class RemoteModel:
    """`predict_one` and `learn_one`, on a model of the service.

        model = RemoteModel(client, "phishing")
        evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())

    An unknown model is created by the first example that is learned, with labels that suit its own: False
    and True, or -1 and 1 if it is -1, else such as appear when they are revealed. Until then nothing is predicted:
    None, as River's own untrained classifiers say. `client.create_model` chooses other settings.

    Learning an example that was predicted before reveals that prediction, so the service's statistics are
    about the predictions that were served, however late the labels came. Another example is learned as a
    whole round.

    A model with named or hashed features gets the dictionaries as they are. One with dense features gets
    lists, in the order of `names`; without it, in the alphabetical order of the first example's names, which
    is the same for every client. A name that an example lacks is 0.
    """

    def __init__(self, client: Client, model: str, *, names: Sequence[Any] | None = None) -> None:
        self.client = client
        self.model = model
        self._names = None if names is None else {name: i for i, name in enumerate(names)}
        self._is_dense: bool | None = None
        self._labels: list[Label] = []
        self._waiting: OrderedDict[object, deque[str]] = OrderedDict()
        self._waiting_count = 0
        _register_with_river()

    def __repr__(self) -> str:
        return f"RemoteModel({self.client!r}, {self.model!r})"

    def predict_one(self, x: Mapping[Any, Any]) -> Label | None:
        prediction = self._predict(x)
        return None if prediction is None else prediction.label

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """The chance of each label, by the service's estimate; of more than two classes only that of the likeliest.

        Empty before the first label was revealed.
        """
        prediction = self._predict(x)
        if prediction is None or prediction.label is None or prediction.probability is None:
            return {}
        found = {prediction.label: prediction.probability}
        if len(self._labels) == 2:
            (other,) = (label for label in self._labels if label != prediction.label)
            found[other] = 1 - prediction.probability
        return found

    def _predict(self, x: Mapping[Any, Any]) -> Prediction | None:
        """None if there is no model: a prediction would make one, with labels that may be wrong."""
        if not self._is_there():
            return None
        features = self._features(x)
        prediction = self.client.predict(self.model, features)
        self._remember(_key(features), prediction.prediction_id)
        return prediction

    def learn_one(self, x: Mapping[Any, Any], y: Label) -> None:
        is_there = self._is_there()
        features = self._features(x)
        if not is_there:
            self.client._make(self.model, features, [y.tolist() if hasattr(y, "tolist") else y])
        prediction_id = self._recall(_key(features))
        if prediction_id is not None:
            try:
                self.client.feedback(prediction_id, y)
                return
            except Refused as refused:
                if refused.code not in LOST_CODES:
                    raise
        self.client.learn(self.model, features, y)

    def clone(
        self, new_params: Mapping[str, Any] | None = None, include_attributes: bool = False
    ) -> "RemoteModel":
        """Another model of the service that has learned nothing; with `include_attributes`, all that this one has.

        `new_params` may have its name, `model`, and settings other than this one's. Without a name it gets this one's,
        a dot and something random.
        """
        params = dict(new_params or {})
        name = params.pop("model", f"{self.model}.{make_id()[-8:]}")
        if include_attributes:
            if params:
                raise ValueError("a trained copy keeps its settings")
            self.client.fork_model(self.model, name)
        else:
            info = self.client._find(self.model)
            settings = {k: v for k, v in (info.settings if info else {}).items() if k not in NOT_GIVEN}
            self.client.create_model(name, **settings | params)
        return RemoteModel(self.client, name, names=None if self._names is None else list(self._names))

    # What River asks of a classifier

    _supervised = True
    _multiclass = True

    def _is_there(self) -> bool:
        """Whether the model has been made; then its kind of features and its labels are known."""
        if self._is_dense is None and (info := self.client._find(self.model)) is not None:
            self._is_dense = info.features_kind == "dense"
            self._labels = info.settings["labels"] or []
        return self._is_dense is not None

    def _features(self, x: Mapping[Any, Any]) -> Features:
        # A model that is not there yet takes what it will be made of.
        is_dense = self._names is not None if self._is_dense is None else self._is_dense
        if not is_dense:
            return {str(name): value for name, value in x.items()}
        if self._names is None:
            self._names = {name: i for i, name in enumerate(sorted(x, key=str))}
        return in_order(x, self._names)

    def _remember(self, key: object, prediction_id: str) -> None:
        self._waiting.setdefault(key, deque()).append(prediction_id)
        self._waiting_count += 1
        if self._waiting_count > WAITING_MAX:
            self._recall(next(iter(self._waiting)))

    def _recall(self, key: object) -> str | None:
        """The oldest prediction of this example that waits for its label."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return None
        prediction_id = waiting.popleft()
        self._waiting_count -= 1
        if not waiting:
            del self._waiting[key]
        return prediction_id


def in_order(x: Mapping[Any, Any], names: Mapping[Any, int]) -> list[float]:
    """The values of a dictionary as a list, each where `names` says.

    >>> in_order({"b": 2, "a": True}, {"a": 0, "b": 1, "c": 2})
    [1.0, 2.0, 0.0]
    >>> in_order({"z": 1}, {"a": 0})
    Traceback (most recent call last):
    ValueError: the model has dense features, and 'z' is not one of them
    """
    values = [0.0] * len(names)
    for name, value in x.items():
        if name not in names:
            raise ValueError(f"the model has dense features, and {name!r} is not one of them")
        try:
            values[names[name]] = float(value)
        except (TypeError, ValueError):
            raise ValueError(f"the model has dense features, and {name!r} is no number: {value!r}") from None
    return values


def _key(features: Features) -> object:
    """Equal features have equal keys."""
    return repr(sorted(features.items())) if isinstance(features, Mapping) else tuple(features)


def _register_with_river() -> None:
    """Register the class as a classifier, which River's metrics ask for; nothing to do if River is not imported."""
    river = sys.modules.get("river.base")
    if river is not None:
        river.Classifier.register(RemoteModel)
