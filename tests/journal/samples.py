"""Events and predictions for tests of journals."""

from service.events import ModelCreated, Prediction, RoundLearned, RoundRevealed


def created(model: str = "m", at: int = 1) -> ModelCreated:
    return ModelCreated(model, at, {"any": "settings"})


def learned(at: int, prediction_id: str | None = None, model: str = "m") -> RoundLearned:
    return RoundLearned(model, at, prediction_id, 1, b"features")


def waiting(prediction_id: str, at: int = 2, model: str = "m") -> Prediction:
    return Prediction(prediction_id, model, at, b"features", 1, 0.5, 3, 2)


def revealed(prediction: Prediction, label: int, at: int = 100) -> RoundRevealed:
    p = prediction
    return RoundRevealed(
        p.model, at, p.prediction_id, label, p.at, p.features, p.served, p.score, p.version, p.updates
    )
