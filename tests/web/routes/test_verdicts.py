"""What `/stats` says of the bound: proved once is proved, and nothing is proved by numbers that have vanished."""

from tests.support.service_process import Service

OVER_EVERY_JOURNAL = True


def test_a_margin_is_exceeded_until_a_reset_and_never_by_numbers_that_are_too_small(
    service: Service, name: str
) -> None:
    service.create(name, declared_margin=0.5, bias=False)
    for _ in range(10):
        service.learn(name, [1.0, 0.0], 1)
        service.learn(name, [1.0, 0.0], -1)
    assert service.stats(name)["bound"]["verdict"] == "exceeded"
    service.learn(name, [0.0, 100.0], -1)
    assert service.stats(name)["bound"]["verdict"] == "exceeded"
    service.assert_replay_equals_live(name)
    service.post(f"/models/{name}/reset", None)
    for features, label in (([1.0, 0.0], -1), ([-1.0, 0.0], 1)):
        service.learn(name, features, label)
    assert service.stats(name)["bound"]["verdict"] == "within"
    service.create(f"{name}s", declared_margin=0.5, bias=False, learner={"eta0": 1e-100})
    service.create(f"{name}x", declared_margin=1e-171, bias=False)
    for i in range(10):
        y = 1 if i % 2 else -1
        service.learn(f"{name}s", [float(y)], y)
        service.learn(f"{name}x", [1e-170 * y], y)
    assert service.stats(f"{name}s")["bound"]["verdict"] == "within"
    assert service.stats(f"{name}x")["bound"]["verdict"] == "not_applicable"
