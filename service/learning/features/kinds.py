"""Every kind of features with its options, declared once: how settings are checked and features made."""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from service.learning.features.contract import Features
from service.learning.features.crosses import (
    CROSSED_MAX,
    PAIRS_MAX,
    SLOTS,
    DenseCrosses,
    HashedCrosses,
    NamedCrosses,
    crossed_size,
    pair_count,
)
from service.learning.features.dense import DIMENSION_MAX, Dense
from service.learning.features.expansion import NAME_CHARS_MAX
from service.learning.features.fourier import Fourier
from service.learning.features.hashed import Hashed
from service.learning.features.named import Named
from service.learning.features.pipeline import Pipeline
from service.learning.features.robust import new_scale, numbers_of_scale
from service.learning.features.transform import Normalize, Transform
from service.learning.parameters import (
    BadParameter,
    Choice,
    Flag,
    Integer,
    Number,
    Parameter,
    check_fields,
)

NAMES_MAX = 100_000
TEXT_FIELDS_MAX = 100
PROJECTION_MAX = 1 << 20
"""Numbers in a Fourier projection, dimension × features; each start of a model draws them again."""

_SCALES: dict[str, Parameter] = {
    "normalize": Choice(None, ("l2",), "`l2` divides each vector by its length, the bias constant apart"),
    "standardize": Flag(
        False, "dense: (x - mean) / deviation; named and hashed: x / deviation, absent ones being 0"
    ),
    "crosses": Integer(None, 2, 2, "2 adds the products of all pairs of features, squares too"),
}

KINDS: dict[str, dict[str, Parameter]] = {
    "dense": {
        "dimension": Integer(None, 1, DIMENSION_MAX, "how many numbers; null: set by the first example"),
        **_SCALES,
    },
    "named": {
        "names_max": Integer(NAMES_MAX, 1, 10_000_000, "names beyond this number are ignored, and counted"),
        **_SCALES,
    },
    "hashed": {
        "bits": Integer(18, 1, 24, "names are hashed into 2^bits slots"),
        **_SCALES,
    },
}  # fmt: skip

FOURIER_FEATURES = 512

FOURIER: dict[str, Parameter] = {
    "features": Integer(FOURIER_FEATURES, 1, 4096, "how many; more are closer to the kernel"),
    "gamma": Number(
        None,
        0.0,
        1e6,
        "the kernel is exp(-γ ‖x - x'‖²); null is 1/dimension, for standardized features",
        low_open=True,
    ),
    "seed": Integer(0, 0, 2**63 - 1, "of the projection"),
}


def complete(
    features: object, *, bias: bool = True, names_max: int = NAMES_MAX, size_max: int | None = None
) -> dict[str, Any]:
    """The settings of a model's features, checked and with every default filled in.

    `names_max` is the service's limit and default. `size_max` is how many weights the learner can do with,
    if it is one of those that keep a matrix (`algorithms.needs_matrix`). A kind's name alone will do.

    >>> complete("hashed")
    {'kind': 'hashed', 'bits': 18, 'normalize': None, 'standardize': False, 'text': []}
    """
    if isinstance(features, str):
        features = {"kind": features}
    if not isinstance(features, Mapping):
        raise BadParameter("features", "must be an object")
    kind = features.get("kind", "dense")
    if not isinstance(kind, str) or kind not in KINDS:
        raise BadParameter("features.kind", "must be one of " + ", ".join(KINDS))
    given = {field: value for field, value in features.items() if field != "kind"}
    extra: dict[str, Any]
    if kind == "dense":
        extra = {"fourier": _complete_fourier(given.pop("fourier", None), bias, size_max)}
    else:
        extra = {"text": _complete_text(given.pop("text", []))}
    limit = names_max if size_max is None else min(names_max, size_max - bias)
    if kind == "named":
        given.setdefault("names_max", limit)
    checked = {"kind": kind, **check_fields(given, KINDS[kind], f"{kind} features", "features."), **extra}
    if checked["crosses"] is None:  # as in the settings of models that are older than crosses
        del checked["crosses"]
    if kind == "named" and checked["names_max"] > limit:
        raise BadParameter("features.names_max", f"must be at most {limit} here")
    _check_size(checked, bias, size_max)
    return checked


def _complete_text(text: object) -> list[str]:
    if not isinstance(text, list | tuple) or len(text) > TEXT_FIELDS_MAX:
        raise BadParameter("features.text", f"must be a list of at most {TEXT_FIELDS_MAX} names")
    for i, name in enumerate(text):
        if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARS_MAX:
            raise BadParameter(f"features.text[{i}]", f"must be a name of 1 to {NAME_CHARS_MAX} characters")
    return sorted(set(text))


def _complete_fourier(fourier: object, bias: bool, size_max: int | None) -> dict[str, Any] | None:
    if fourier is None:
        return None
    if not isinstance(fourier, Mapping):
        raise BadParameter("features.fourier", "must be null or an object")
    if size_max is not None and "features" not in fourier:
        fourier = {**fourier, "features": max(1, min(FOURIER_FEATURES, size_max - bias))}
    return check_fields(fourier, FOURIER, "fourier", "features.fourier.")


def _check_size(features: Mapping[str, Any], bias: bool, size_max: int | None) -> None:
    """Refuse what is too large already; `Dense` itself refuses a first example that is."""
    dimension, fourier = features.get("dimension"), features.get("fourier")
    if fourier is not None and dimension is not None and dimension * fourier["features"] > PROJECTION_MAX:
        raise BadParameter("features.fourier.features", f"times dimension may be at most {PROJECTION_MAX}")
    if "crosses" in features:
        _check_crosses(features, bias, size_max)
        return
    if size_max is None:
        return
    for field, size in (
        ("features.bits", 1 << features.get("bits", 0)),
        ("features.fourier.features", fourier["features"] if fourier else 0),
        ("features.dimension", dimension or 0 if not fourier else 0),
    ):
        if size + bias > size_max:
            raise BadParameter(
                field, f"makes {size + bias} weights; a full covariance takes at most {size_max}"
            )


def _check_crosses(features: Mapping[str, Any], bias: bool, size_max: int | None) -> None:
    dimension = features.get("dimension") or 1
    if features.get("fourier") is not None:
        raise BadParameter("features.crosses", "must be null with fourier, which bends boundaries already")
    if dimension > CROSSED_MAX:
        raise BadParameter("features.dimension", f"must be at most {CROSSED_MAX} with crosses")
    size = weights_of({**features, "dimension": dimension}) + bias
    if size_max is not None and size > size_max:
        raise BadParameter(
            "features.crosses", f"makes {size} weights; a full covariance takes at most {size_max}"
        )


def weights_of(features: Mapping[str, Any]) -> int:
    """How many weights of a learner features with these completed settings may come to need, the bias apart.

    At least 1, where the first example is yet to fix the dimension.

    >>> weights_of(complete({"kind": "hashed", "bits": 3})), weights_of(complete({"kind": "named", "names_max": 5}))
    (8, 5)
    >>> [weights_of(complete({"dimension": 4, **more})) for more in ({}, {"crosses": 2}, {"fourier": {}})]
    [4, 14, 512]
    """
    is_crossed = "crosses" in features
    if features["kind"] == "hashed":
        return 1 << int(features["bits"])
    if features["kind"] == "named":
        names = int(features["names_max"])
        pairs = pair_count(names) if is_crossed else 0
        return names + (pairs if pairs < PAIRS_MAX else PAIRS_MAX + SLOTS)
    if features["fourier"]:
        return int(features["fourier"]["features"])
    dimension = int(features["dimension"] or 1)
    return crossed_size(dimension) if is_crossed else dimension


def build(
    features: Mapping[str, Any],
    bias_value: float | None,
    *,
    size_max: int | None = None,
    robust: bool = False,
) -> Features:
    """Features at their start, from completed settings and the same `size_max`; `robust`: those of rules 3 on."""
    kind = features["kind"]
    transforms: dict[str, Transform] = {}
    if features["standardize"]:
        transforms["standardize"] = new_scale(is_dense=kind == "dense", robust=robust)
    if "crosses" in features:
        transforms["crosses"] = _crosses(features, int(bias_value is not None))
    if features["normalize"]:
        transforms["normalize"] = Normalize()
    if kind == "dense":
        fourier = features["fourier"]
        limit = DIMENSION_MAX if size_max is None else size_max - (bias_value is not None)
        if fourier:
            transforms["fourier"] = Fourier(**fourier)
            limit = min(DIMENSION_MAX, PROJECTION_MAX // fourier["features"])
        elif "crosses" in features:
            fits = range(1, min(limit, CROSSED_MAX) + 1)
            limit = bisect_right(fits, limit, key=crossed_size)
        if not transforms:
            return Dense(features["dimension"], bias_value, limit)
        return Pipeline(Dense(features["dimension"], None, limit), transforms, bias_value)
    text, first = frozenset(features["text"]), int(bias_value is not None)
    if kind == "named":
        return Pipeline(
            Named(names_max=features["names_max"], text=text, first=first), transforms, bias_value
        )
    return Pipeline(Hashed(bits=features["bits"], text=text, first=first), transforms, bias_value)


def _crosses(features: Mapping[str, Any], first: int) -> Transform:
    if features["kind"] == "dense":
        return DenseCrosses()
    if features["kind"] == "named":
        return NamedCrosses(first=first)
    return HashedCrosses(bits=features["bits"], first=first)


def numbers_kept(features: Mapping[str, Any], size: int, *, robust: bool) -> int:
    """How many numbers features with these completed settings keep for so many entries.

    They are means and variances, and Fourier's projection or the list of pairs if the settings tell the dimension.

    >>> [numbers_kept(complete({"kind": kind, "standardize": True}), 10, robust=False) for kind in KINDS]
    [20, 30, 30]
    >>> numbers_kept(complete({"dimension": 3, "standardize": True, "fourier": {"features": 10}}), 10, robust=True)
    117
    """
    scaled, projection = size, 0
    if features.get("fourier"):
        scaled = features["dimension"] or 0
        projection = scaled * features["fourier"]["features"]
    elif "crosses" in features and features["kind"] == "dense":
        scaled = features["dimension"] or 0
        projection = 4 * pair_count(scaled)  # left, right, slot and sign
    elif "crosses" in features and features["kind"] == "named":
        projection = 3 * size  # codes, sorted codes and their places
    if not features["standardize"]:
        return projection
    return projection + numbers_of_scale(is_dense=features["kind"] == "dense", robust=robust) * scaled


def schema() -> dict[str, Any]:
    """The JSON schema of the settings of features."""
    text = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX},
            "maxItems": TEXT_FIELDS_MAX, "default": [],
            "description": "fields whose strings are split into lower-case words"}  # fmt: skip
    fourier = {"type": ["object", "null"], "default": None, "additionalProperties": False,
               "description": "random Fourier features: a curved boundary",
               "properties": {name: parameter.schema() for name, parameter in FOURIER.items()}}  # fmt: skip
    return {
        "oneOf": [
            {
                "type": "object",
                "title": kind,
                "properties": {
                    "kind": {"const": kind, "type": "string"},
                    **{name: parameter.schema() for name, parameter in parameters.items()},
                    **({"fourier": fourier} if kind == "dense" else {"text": text}),
                },
                "required": [] if kind == "dense" else ["kind"],
                "additionalProperties": False,
            }
            for kind, parameters in KINDS.items()
        ]
    }
