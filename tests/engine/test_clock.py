"""Time that rises at its pace, whatever is done to the machine's clock, and however wrong others' clocks are."""

import pytest

from service.engine.clock import AHEAD_MAX_US, Clock
from service.journal.jetstream.link.following import APART_MAX_US, Contact, seconds_up
from tests.engine.test_time import HOUR_US, SECOND_US, YEAR_US, Machine


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_it_is_the_machines_time_as_long_as_that_goes_on(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    clock = machine.clock()
    clock.start_after(0)
    for seconds in (1, 0.001, 3_600, 86_400 * 30):
        machine.wait(seconds)
        machine.wall += 1_000  # and is kept right now and then
        assert clock.now() == machine.wall
    assert clock.ago(clock.now(), HOUR_US) == clock.now() - HOUR_US - 1, "none of these was a jump"
    assert not caplog.records


def test_it_rises_with_every_reading(machine: Machine) -> None:
    clock = machine.clock()
    readings = [clock.now() for _ in range(3)]
    machine.wall -= HOUR_US
    readings += [clock.now() for _ in range(3)]
    assert readings == sorted(set(readings))


def test_a_jump_back_makes_it_slower_until_the_machines_clock_has_caught_up(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    clock = machine.clock()
    before = clock.now()
    machine.wall -= HOUR_US
    machine.wait(160)
    assert clock.now() - before == 150 * SECOND_US
    machine.wait(20 * 3_600)
    assert clock.now() == machine.wall
    (told,) = caplog.records
    assert told.message == "the system clock was set back by 3600 seconds"
    assert (told.direction, told.seconds) == ("back", 3_600)  # type: ignore[attr-defined]


def test_a_jump_ahead_is_followed_and_told_and_takes_no_time(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    clock = machine.clock()
    first = clock.now()
    machine.wait(60)
    clock.now()
    machine.wall += 5 * HOUR_US
    machine.wait(30)
    now = clock.now()
    assert now == machine.wall
    assert caplog.messages == ["the system clock was set ahead by 18000 seconds"]
    assert clock.ago(now, 90 * SECOND_US) == pytest.approx(first, abs=10)
    assert clock.ago(now, 10 * SECOND_US) < now - 10 * SECOND_US + 10, (
        "what is newer than the jump is not moved"
    )
    machine.wait(100)
    assert clock.ago(clock.now(), 10 * SECOND_US) == clock.now() - 10 * SECOND_US - 1


def test_an_own_journal_is_always_followed_and_time_goes_on_from_there(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    clock = machine.clock()
    ahead = machine.wall + 10 * YEAR_US
    clock.start_after(ahead)
    assert clock.now() == ahead + 1
    machine.wait(1_600)
    assert clock.now() == ahead + 1 + 1_500 * SECOND_US
    (told,) = caplog.messages
    assert told.startswith("the newest event is ")


def test_a_time_of_others_counts_up_to_a_bound_and_is_told_seldom(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(lambda: machine.wall, lambda: machine.steady, is_shared=True)
    clock.start_after(machine.wall)
    clock.follow(machine.wall + AHEAD_MAX_US // 2)
    assert clock.now() > machine.wall + AHEAD_MAX_US // 4 and not caplog.records
    for hours in range(1, 100):
        before = clock.now()
        clock.follow(machine.wall + hours * HOUR_US)
        assert before < clock.now() < machine.wall + AHEAD_MAX_US + SECOND_US
    (told,) = caplog.messages
    assert "seconds ahead" in told


@pytest.mark.parametrize("off_us", [-10 * YEAR_US, -5 * HOUR_US, 5 * HOUR_US, 10 * YEAR_US])
def test_a_machine_whose_clock_is_wrong_takes_the_time_of_the_cluster(
    machine: Machine, off_us: int, caplog: pytest.LogCaptureFixture
) -> None:
    contact = Contact(15.0)
    assert contact.corrected_us(machine.wall) == machine.wall, "nothing is known of the cluster yet"
    contact.heard(seconds_up(), machine.wall)
    assert contact.corrected_us(machine.wall + APART_MAX_US // 2) == machine.wall + APART_MAX_US // 2
    corrected = [contact.corrected_us(machine.wall + off_us) for _ in range(3)]
    assert all(abs(one - machine.wall) < 60 * SECOND_US for one in corrected)
    (told,) = caplog.messages
    assert "clocks of this machine and of the cluster differ" in told
