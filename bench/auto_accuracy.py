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
    heads = ["`auto`", "best single setting", "difference", "`perceptron`", *OTHERS]
    print("| right % | " + " | ".join(heads) + " |")
    print("|---|---:|---|---:|---:|" + "---:|" * len(OTHERS))
    found = []
    for name, make in shipped().items():
        if wanted and name not in wanted:
            continue
        rounds = make()
        auto = accuracy(Auto, rounds)
        singles = {setting: accuracy(of, rounds) for setting, of in SETTINGS.items()}
        best = max(singles, key=lambda setting: singles[setting])
        beside = [singles["perceptron"], *(accuracy(of, rounds) for of in OTHERS.values())]
        found.append((auto, singles[best], *beside))
        size = f"{len(rounds):,} × {len(rounds[0][0])}, {len({truth for _, truth in rounds})} classes"
        _print_row(f"{name} ({size})", auto, singles[best], f" `{best}`", beside)
    auto, best_mean, *beside = (mean(column) for column in zip(*found, strict=True))
    _print_row(f"**mean of {len(found)}**", auto, best_mean, "", beside)


def _print_row(head: str, auto: float, best: float, which: str, beside: list[float]) -> None:
    cells = [f"{auto:.1f}", f"{best:.1f}{which}", f"{auto - best:+.1f}", *(f"{each:.1f}" for each in beside)]
    print(f"| {head} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
