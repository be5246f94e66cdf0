"""What somebody with a key may ask of models, all at once and too much of it: small models and the largest allowed.

Exports in every form, weights, explanations, looks at the past, forks, rollbacks, challengers and what-ifs.
"""

import json
from collections.abc import Callable
from typing import Any

from tests.fuzz.sender import Sender

JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}
COPIES = 3
"""Models of each shape."""

SHAPES: dict[str, dict[str, Any]] = {
    "small": {},
    "words": {"features": {"kind": "named", "text": ["words"]}, "labels": None, "coverage": 0.9},
    "crossed": {"features": {"kind": "named", "names_max": 500, "crosses": 2}},
    "curved": {"features": {"kind": "dense", "dimension": 8, "fourier": {"features": 4096}}},
    "panel": {"features": {"kind": "dense", "dimension": 1_000}, "learner": {"algorithm": "auto"}},
    "matrix": {"features": {"kind": "dense", "dimension": 500}, "learner": {"algorithm": "arow", "covariance": "full"}},
    "wide": {"features": {"kind": "dense", "dimension": 30_000}, "labels": list(range(16))},
    "averaged": {"features": {"kind": "dense", "dimension": 60_000}, "learner": {"algorithm": "averaged"}},
    "slots": {"features": {"kind": "hashed", "bits": 17}, "learner": {"algorithm": "arow"}, "ask": "auto"},
    "classes": {"features": {"kind": "dense", "dimension": 450}, "labels": list(range(1_000))},
    "pairs": {"features": {"kind": "hashed", "bits": 9}, "labels": list(range(40)), "multiclass": "one_vs_one"},
    "contest": {
        "features": {"kind": "dense", "dimension": 10_000},
        "labels": list(range(10)),
        "challengers": {name: {"learner": {"algorithm": name}} for name in ("pa1", "arow")},
    },
}  # fmt: skip
"""Near the limits of the service that is attacked: half a million numbers at most."""

VERSIONS = ("0", "1", "2", "3", "5", "50", str(2**62))
ODD = ("-1", "x", "", "1e9", str(2**64))


def chosen_model(sender: Sender) -> tuple[str, str]:
    """The name and the shape of a model; it is made and has learned a little, unless others have deleted it."""
    shape = sender.random.choice(list(SHAPES))
    name = f"{shape}-{sender.random.randrange(COPIES)}"
    if name not in sender.known:
        sender.known.add(name)
        sender.post("/models", json.dumps({"model": name, **SHAPES[shape]}).encode(), JSON)
        teach(sender, name, shape)
    return name, shape


def teach(sender: Sender, name: str, shape: str) -> None:
    lines = [
        json.dumps({"features": features_of(sender, shape), "label": label_of(sender, shape)}).encode()
        for _ in range(sender.random.choice((2, 10)))
    ]
    sender.post(f"/stream?model={name}&answers=summary", b"\n".join(lines), NDJSON)


def features_of(sender: Sender, shape: str) -> Any:
    """An example for such a model: few numbers for small ones, most of them zeros for large ones."""
    features = SHAPES[shape].get("features", {"kind": "dense", "dimension": 3})
    if features["kind"] == "dense":
        return [sender.random.choice((0, 0, 1, -2.5)) for _ in range(features["dimension"])]
    named: dict[str, Any] = {f"n{sender.random.randrange(5_000)}": 1.5 for _ in range(200)}
    if features.get("text"):
        named["words"] = " ".join(f"word{sender.random.randrange(100_000)}" for _ in range(2_000))
    return named


def label_of(sender: Sender, shape: str) -> Any:
    labels = SHAPES[shape].get("labels", [-1, 1])
    return sender.random.choice(labels) if labels else f"label {sender.random.randrange(30)}"


def _number(sender: Sender, *usual: str) -> str:
    """One of the usual ones; at times one that is none."""
    return sender.random.choice(usual if sender.random.random() < 0.8 else ODD)


def look(sender: Sender, name: str) -> str:
    """The path of something large to read of a model."""
    what = sender.random.choice(
        ("export", "export?format=novikoff", "export?format=sklearn", "export?format=onnx", "export?format=no",
         "weights", f"weights?largest={_number(sender, '1', '10', '1000')}", "history", "history?format=arrow",
         "history?format=parquet", "events?limit=1000", "pending")
    )  # fmt: skip
    if what.startswith(("export", "weights")) and sender.random.random() < 0.4:
        what += f"{'&' if '?' in what else '?'}at={_number(sender, *VERSIONS)}"
    return f"/models/{name}/{what}"


def exports_and_weights(sender: Sender) -> None:
    sender.get(look(sender, chosen_model(sender)[0]))


def looks_not_taken(sender: Sender) -> None:
    """Large answers that are asked for, several on a connection, and not read."""
    paths = [look(sender, chosen_model(sender)[0]) for _ in range(sender.random.choice((1, 1, 5)))]
    sender.hold(b"".join(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode() for path in paths))


def moving(sender: Sender) -> None:
    """An export of one model sent as another."""
    name, _ = chosen_model(sender)
    status, body = sender.ask("GET", f"/models/{name}/export")
    if status == 200:
        other = f"moved-{sender.random.randrange(10)}"
        sender.ask(
            "PUT", f"/models/{other}", body[: len(body) - sender.random.choice((0, 0, 0, 1, 99))], JSON
        )
        sender.ask("DELETE", f"/models/{other}")


def explanations(sender: Sender) -> None:
    name, shape = chosen_model(sender)
    asked: dict[str, Any] = {
        "model": name,
        "features": features_of(sender, shape),
        "explain": sender.random.choice((1, 10, 1_000, 1_001, -1)),
        "dry": sender.random.random() < 0.5,
    }
    if sender.random.random() < 0.5:
        asked = {"model": name, "items": [{"features": asked["features"]}] * sender.random.choice((1, 20))}
    sender.post("/predict", json.dumps(asked).encode(), JSON)


def rounds(sender: Sender) -> None:
    name, shape = chosen_model(sender)
    teach(sender, name, shape)


def forks(sender: Sender) -> None:
    name, _ = chosen_model(sender)
    other = f"fork-{sender.random.randrange(10)}"
    asked = {"as": sender.random.choice((other, other, name, "", "é"))}
    asked |= {"at": sender.random.choice((0, 1, 3, 2**62, -1))} if sender.random.random() < 0.5 else {}
    sender.post(f"/models/{name}/fork", json.dumps(asked).encode(), JSON)
    sender.get(look(sender, other))
    if sender.random.random() < 0.5:
        sender.ask("DELETE", f"/models/{other}")


def rollbacks(sender: Sender) -> None:
    name, _ = chosen_model(sender)
    to = sender.random.choice((0, 1, 2, 5, 2**62, -1, None, "1"))
    sender.post(f"/models/{name}/rollback", json.dumps({"to": to}).encode(), JSON)


def _other_settings(sender: Sender) -> dict[str, Any]:
    other = {
        "learner": {"algorithm": sender.random.choice(("perceptron", "pa1", "arow", "scw", "logistic", "auto", "x"))},
        "multiclass": sender.random.choice(("one_vs_all", "one_vs_one", "multiclass")),
        "features": sender.random.choice(
            ("dense", "named", {"kind": "hashed", "bits": 24}, {"kind": "hashed", "bits": 12},
             {"kind": "dense", "fourier": {"features": 4096}})
        ),
    }  # fmt: skip
    return {key: other[key] for key in sender.random.sample(list(other), sender.random.choice((1, 1, 2)))}


def challengers(sender: Sender) -> None:
    name, _ = chosen_model(sender)
    other = f"challenger-{sender.random.randrange(3)}"
    added = {"name": other, "start": sender.random.choice(("cold", "history")), **_other_settings(sender)}
    sender.post(f"/models/{name}/challengers", json.dumps(added).encode(), JSON)
    if sender.random.random() < 0.3:
        sender.post(f"/models/{name}/promote", json.dumps({"challenger": other}).encode(), JSON)
    if sender.random.random() < 0.5:
        sender.ask("DELETE", f"/models/{name}/challengers/{other}")


def what_ifs(sender: Sender) -> None:
    name, _ = chosen_model(sender)
    several = [_other_settings(sender) for _ in range(sender.random.choice((1, 4, 33)))]
    asked: dict[str, Any] = {"grid": several} if len(several) > 1 else {"settings": several[0]}
    if sender.random.random() < 0.3:
        asked["as"] = f"fork-{sender.random.randrange(10)}"
    status, body = sender.ask("POST", f"/models/{name}/replay", json.dumps(asked).encode(), JSON)
    if status == 202:
        job = json.loads(body)["id"]
        sender.get(f"/jobs/{job}")
        if sender.random.random() < 0.5:
            sender.ask("DELETE", f"/jobs/{job}")


def resets(sender: Sender) -> None:
    name, _ = chosen_model(sender)
    sender.ask("POST", f"/models/{name}/reset")
    if sender.random.random() < 0.3:
        sender.ask("DELETE", f"/models/{name}")
        sender.known.discard(name)


KINDS: list[Callable[[Sender], None]] = [
    exports_and_weights, looks_not_taken, moving, explanations, rounds, forks, rollbacks, challengers, what_ifs,
    resets,
]  # fmt: skip
