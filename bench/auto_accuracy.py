"""`auto` beside every single setting and river's forest, on every stream that river and scikit-learn bring along.

    python -m bench.auto_accuracy [NAME …]

One pass; each example is predicted first and learned after. `auto` is one setting for all streams. A single setting is
one of our algorithms on standardized features, two of them also with Fourier features and with crosses; which of
them is the best is known only afterwards, and differs from stream to stream. The forest takes nearly all of the time.
"""

import sys
from collections.abc import Callable
from statistics import mean

from river import linear_model

from bench.accuracy import SINGLE, Auto, Forest, Online, Ours, Rivers, error, one_vs_rest
from bench.streams import Rounds, shipped

SETTINGS: dict[str, Callable[[int], Online]] = {
    **{name: lambda k, name=name: Ours({"algorithm": name}, k) for name in SINGLE},  # type: ignore[misc]
    "arow, fourier": lambda k: Ours({"algorithm": "arow"}, k, fourier={}),
    "logistic, fourier": lambda k: Ours({"algorithm": "logistic"}, k, fourier={}),
    "scw, fourier": lambda k: Ours({"algorithm": "scw"}, k, fourier={}),
    "arow, crosses": lambda k: Ours({"algorithm": "arow"}, k, crosses=2),
    "scw, crosses": lambda k: Ours({"algorithm": "scw"}, k, crosses=2),
}

OTHERS: dict[str, Callable[[int], Online]] = {
    "river LogisticRegression": lambda k: Rivers(one_vs_rest(linear_model.LogisticRegression(), k)),
    "river ARF": lambda k: Forest(),
}


def accuracy(make: Callable[[int], Online], rounds: Rounds) -> float:
    """Per cent."""
    return 100 * (1 - error(make(len({truth for _, truth in rounds})), rounds))


def main() -> None:
    wanted = sys.argv[1:]
    heads = ["auto", "best single setting", "auto less the best", *OTHERS]
    print("| right % | " + " | ".join(heads) + " |")
    print("|---|---:|---|---:|" + "---:|" * len(OTHERS))
    found = []
    for name, make in shipped().items():
        if wanted and name not in wanted:
            continue
        rounds = make()
        auto = accuracy(Auto, rounds)
        singles = {setting: accuracy(of, rounds) for setting, of in SETTINGS.items()}
        best = max(singles, key=lambda setting: singles[setting])
        others = [accuracy(of, rounds) for of in OTHERS.values()]
        found.append((auto, singles[best], *others))
        told = f"{auto:.1f} | {singles[best]:.1f} `{best}` | {auto - singles[best]:+.1f}"
        size = f"{len(rounds):,} × {len(rounds[0][0])}"
        print(
            f"| {name} ({size}) | {told} | " + " | ".join(f"{other:.1f}" for other in others) + " |",
            flush=True,
        )
    auto, best, *others = (mean(column) for column in zip(*found, strict=True))
    told = f"{auto:.1f} | {best:.1f} | {auto - best:+.1f}"
    print(f"| mean | {told} | " + " | ".join(f"{other:.1f}" for other in others) + " |")


if __name__ == "__main__":
    main()
