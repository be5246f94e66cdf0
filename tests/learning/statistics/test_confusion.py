"""The confusion matrix and what follows from it, against plain loops over all pairs."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning.statistics.confusion import CELLS_MAX, CLASSES_MAX, Confusion
from tests.learning.statistics.records import asked


def divided(part, whole):
    return part / whole if whole else None


def naive_kappa(accuracy, chance):
    return None if chance == 1 else pytest.approx((accuracy - chance) / (1 - chance), abs=1e-9)


def naive(pairs, classes):
    """The definitions, one by one."""
    n = len(pairs)
    matrix = [[pairs.count((t, s)) for s in range(classes)] for t in range(classes)]
    each = []
    for c in range(classes):
        hits = matrix[c][c]
        support = sum(t == c for t, _ in pairs)
        answered = sum(s == c for _, s in pairs)
        precision, recall = divided(hits, answered), divided(hits, support)
        each.append({"support": support, "precision": precision, "recall": recall})
        each[-1]["f1"] = divided(2 * hits, support + answered)
    truths = [t for t, _ in pairs]
    no_change = sum(before == now for before, now in zip([0, *truths], truths, strict=False))
    majority = 0
    for number, truth in enumerate(truths, 1):
        counts = Counter(truths[:number])
        majority += truth == min(counts, key=lambda c: (-counts[c], c))
    if not n:
        return (
            matrix,
            each,
            dict.fromkeys(["majority_error_rate", "no_change_error_rate", "kappa", "kappa_m", "kappa_t"]),
        )
    accuracy = sum(t == s for t, s in pairs) / n
    chance = sum(each[c]["support"] / n * sum(s == c for _, s in pairs) / n for c in range(classes))
    baselines = {
        "majority_error_rate": (n - majority) / n,
        "no_change_error_rate": (n - no_change) / n,
        "kappa": None if chance > 1 - 1e-12 else naive_kappa(accuracy, chance),
        "kappa_m": naive_kappa(accuracy, majority / n),
        "kappa_t": naive_kappa(accuracy, no_change / n),
    }
    return matrix, each, baselines


def observed(pairs):
    confusion = Confusion()
    for truth, served in pairs:
        confusion.observe(truth, served)
    return confusion


def streams(classes):
    return st.lists(st.tuples(st.integers(0, classes - 1), st.integers(-1, classes - 1)), max_size=60)


@settings(deadline=None)
@given(st.integers(1, 13).flatmap(lambda k: st.tuples(streams(k), st.just(k))))
def test_every_number_is_what_the_definition_says(case):
    pairs, classes = case
    report = observed(pairs).report(asked(classes=classes))
    matrix, each, baselines = naive(pairs, classes)
    assert report["confusion"] == {"matrix": matrix}
    assert report["classes"] == each
    assert report["baselines"] == baselines


@settings(deadline=None)
@given(streams(12))
def test_the_state_is_the_confusion(pairs):
    confusion = observed(pairs)
    again = Confusion.restore(confusion.state())
    assert again.state() == confusion.state()
    assert again.report(asked(classes=12)) == confusion.report(asked(classes=12))


def test_f1_is_the_harmonic_mean_of_precision_and_recall():
    rng = random.Random(3)
    pairs = [(rng.randrange(3), rng.randrange(3)) for _ in range(200)]
    for each in observed(pairs).report(asked(classes=3))["classes"]:
        precision, recall = each["precision"], each["recall"]
        assert each["f1"] == pytest.approx(2 * precision * recall / (precision + recall))


def test_kappa_agrees_with_scikit_learn():
    from sklearn.metrics import cohen_kappa_score

    rng = random.Random(4)
    pairs = [(t, t if rng.random() < 0.7 else rng.randrange(5)) for t in rng.choices(range(5), k=500)]
    truths, served = zip(*pairs, strict=True)
    kappa = observed(pairs).report(asked(classes=5))["baselines"]["kappa"]
    assert kappa == pytest.approx(cohen_kappa_score(truths, served))


def test_a_declared_class_that_never_came_has_no_ratios():
    report = observed([(0, 0), (0, 0)]).report(asked(classes=2))
    assert report["classes"][1] == {"support": 0, "precision": None, "recall": None, "f1": None}
    assert report["baselines"]["kappa"] is None  # chance alone is never wrong here


def test_a_thousand_classes_keep_exact_ratios_in_bounded_memory():
    rng = random.Random(5)
    classes, rounds = 1000, 30_000
    pairs = []
    for _ in range(rounds):
        truth = min(int(rng.expovariate(0.01)), classes - 1)
        pairs.append((truth, truth if rng.random() < 0.5 else rng.randrange(-1, classes)))
    confusion = observed(pairs)
    assert len(confusion.far) <= CELLS_MAX + 3 * classes
    assert len(set(pairs)) > 2 * CELLS_MAX  # or nothing was left out, and this shows nothing
    report = confusion.report(asked(classes=classes))
    supports = Counter(t for t, _ in pairs)
    answered = Counter(s for _, s in pairs)
    hits = Counter(t for t, s in pairs if t == s)
    for c, each in enumerate(report["classes"]):
        assert each["support"] == supports[c]
        assert each["precision"] == divided(hits[c], answered[c])
        assert each["recall"] == divided(hits[c], supports[c])
    assert report["confusion"]["matrix"] is None
    largest = report["confusion"]["largest"]
    assert len(largest) == 100
    counts = Counter((t, s) for t, s in pairs if t != s)
    assert all(counts[cell["true"], cell["served"]] == cell["count"] for cell in largest)
    assert [cell["count"] for cell in largest] == sorted((cell["count"] for cell in largest), reverse=True)
    again = Confusion.restore(confusion.state())
    assert again.report(asked(classes=classes)) == report


def test_fifty_classes_have_their_whole_matrix_however_many_pairs_occur():
    pairs = [(t, s) for t in range(50) for s in range(-1, 50)] * 2
    random.Random(6).shuffle(pairs)
    assert observed(pairs).report(asked(classes=50))["confusion"]["matrix"] == [[2] * 50] * 50


def test_classes_past_the_last_that_can_be_told_apart_are_counted_with_it():
    confusion = Confusion()
    last, past = CLASSES_MAX - 1, CLASSES_MAX + 1
    for truth, served in [(last, 0), (past, -1), (0, past), (past, past), (past, 0)]:
        confusion.observe(truth, served)
    report = Confusion.restore(confusion.state()).report(asked(classes=CLASSES_MAX + 2))
    assert [report["classes"][c]["support"] for c in (0, last, past)] == [1, 4, 0]


def test_the_commonest_confusions_are_only_those_that_occurred():
    report = observed([(7, 7), (3, 1), (3, 1), (0, 60), (60, 60)]).report(asked(classes=61))
    assert report["confusion"]["largest"] == [
        {"true": 3, "served": 1, "count": 2},
        {"true": 0, "served": 60, "count": 1},
    ]
