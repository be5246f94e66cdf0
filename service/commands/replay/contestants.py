"""What `--compare` names: settings of models, by short names or as JSON.

A short name is an algorithm and what its features get, such as `arow+standardize+fourier`.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from service.commands.console import CommandFailed

Settings = dict[str, Any]

USUAL = (
    "auto",
    "perceptron",
    "pa1+standardize",
    "arow+standardize",
    "arow+standardize+fourier",
    "logistic+standardize",
    "scw+standardize+crosses",
)
"""What the word `usual` stands for."""

ADDED: dict[str, Settings] = {
    "standardize": {"standardize": True},
    "fourier": {"fourier": {}},
    "crosses": {"crosses": 2},
}
"""What may follow an algorithm, and the setting of the features that it stands for."""

CONTESTANTS_MAX = 20


def contestants(texts: Iterable[str], common: Settings) -> dict[str, Settings]:
    """The settings that are named, each laid over those `common` to all, in their order; each once.

    >>> found = contestants(["pa1,arow+standardize", '{"tie": -1}'], {"labels": [0, 1], "features": "dense"})
    >>> found["arow+standardize"]
    {'labels': [0, 1], 'features': {'kind': 'dense', 'standardize': True}, 'learner': {'algorithm': 'arow'}}
    >>> found['{"tie": -1}']
    {'labels': [0, 1], 'features': 'dense', 'tie': -1}
    """
    found: dict[str, Settings] = {}
    for text in texts:
        if text.lstrip().startswith("{"):
            found[text.strip()] = common | _json(text)
            continue
        for name in (part.strip() for part in text.split(",")):
            for each in _usual(common) if name == "usual" else [name]:
                found[each] = _by_name(each, common)
    if len(found) < 2:
        raise CommandFailed("--compare needs two settings or more, such as --compare auto,arow+standardize")
    if len(found) > CONTESTANTS_MAX:
        raise CommandFailed(f"--compare takes at most {CONTESTANTS_MAX} settings, and these are {len(found)}")
    return found


def model_name(prefix: str, name: str, number: int) -> str:
    """The model that learns with these settings; `number` tells JSON apart.

    >>> model_name("mails", "arow+fourier", 3), model_name("mails", '{"tie": -1}', 3)
    ('mails.arow.fourier', 'mails.settings.3')
    """
    told = re.sub(r"[^A-Za-z0-9_:-]", ".", name) if not name.startswith("{") else f"settings.{number}"
    return f"{prefix}.{told}"


def _usual(common: Settings) -> list[str]:
    """Fourier features are for dense ones only."""
    is_dense = _features(common).get("kind", "dense") == "dense"
    return [name for name in USUAL if is_dense or "fourier" not in name]


def _by_name(name: str, common: Settings) -> Settings:
    algorithm, *added = name.split("+")
    features = _features(common)
    for word in added:
        if word not in ADDED:
            raise CommandFailed(f"--compare {name}: `{word}` is none of {', '.join(ADDED)}")
        features |= ADDED[word]
    learner = {"algorithm": algorithm}
    return {**common, "features": features if added else common.get("features", "dense"), "learner": learner}


def _features(common: Settings) -> Settings:
    features = common.get("features", "dense")
    return dict(features) if isinstance(features, dict) else {"kind": features}


def _json(text: str) -> Settings:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CommandFailed(f"--compare {text}: not a JSON object: {error}") from None
