"""Models that nobody has made, for what Python programs are about to learn.

The service makes a model by itself when its first round comes, with the labels -1 and 1. Those who have other labels
would be refused, and the model would stay: so it is made before, with labels that suit.
"""

from collections.abc import Collection
from typing import Any

from service.answers import Label
from service.client.problems import Refused


def settings_for(kind: str, labels: Collection[Label]) -> dict[str, Any] | None:
    """What to make a model with, for features of a kind and these first labels; None: the service makes the right one.

    Only booleans are known to have no third label, and only -1 tells that 1 is not the 1 of 0 and 1. With labels of
    None the classes appear as they are revealed, which is never wrong.

    >>> settings_for("named", [True]), settings_for("dense", ["p", "q"])
    ({'labels': [False, True], 'features': 'named'}, {'labels': None, 'features': 'dense'})
    >>> settings_for("dense", [1, -1]), settings_for("dense", [1])
    (None, {'labels': None, 'features': 'dense'})
    """
    if _are_signs(labels) and -1 in labels:
        return None
    are_booleans = all(isinstance(label, bool) for label in labels)
    return {"labels": [False, True] if are_booleans else None, "features": kind}


def is_no_matter(refused: Refused, labels: Collection[Label]) -> bool:
    """Whether rounds may be sent though their model could not be made.

    Somebody else has made it meanwhile; or the key may not, and the one that the service makes takes these labels.
    """
    return refused.code == "model-exists" or (refused.code == "forbidden" and _are_signs(labels))


def _are_signs(labels: Collection[Label]) -> bool:
    return all(label in (-1, 1) and not isinstance(label, bool) for label in labels)
