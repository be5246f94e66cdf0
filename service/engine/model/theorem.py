"""Which models the mistake bound speaks of."""

from typing import Any


def why_unfit(settings: dict[str, Any], origin: str | None) -> str | None:
    """Why the theorem says nothing about a model with these settings; None if it does.

    `origin` tells where its weights came from, if they did not start at zero.
    """
    learner = settings["learner"]
    if origin is not None:
        return f"the theorem is about weights that start at zero; these were {origin}"
    if learner["algorithm"] != "perceptron" or learner["rule"] != "mistake":
        return "the theorem is about the perceptron with rule `mistake`"
    if learner["schedule"] != "constant":
        return "the theorem is about a constant learning rate"
    if settings["multiclass"] is not None:
        return "the theorem is about two classes"
    if settings["features"]["standardize"]:
        return "standardize moves the examples between prediction and reveal"
    return None
