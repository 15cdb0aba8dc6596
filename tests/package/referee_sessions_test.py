"""Simulated sessions of the referee: no more false keeps than promised, and planted gains are found."""
import math
import random

from referee_simulation import (LEAD, Request, Seeds, Settings, World, begun, disturbed, heavy, kept, margin, night,
                                normal, pursue, to_loss)
from support import SOURCE
from optimization_rush.referee.decide import FIRST_LOOKS, spent
from optimization_rush.referee.rounds import log_ratios
from optimization_rush.report import read
from optimization_rush.referee.statistics import Estimate, t_quantile

QUICKSTART = 0.045  # standard deviation of a round's logarithm, from the intervals of reports/quickstart/epyc-2-cores


def quantiles():
    for degrees, tail, value in ((1, 0.25, 1), (2, 0.01, 6.964557), (7, 0.025, 2.364624), (30, 0.05, 1.697261),
                                 (10, 0.0005, 4.586894), (1000, 0.025, 1.962339)):
        assert abs(t_quantile(degrees, tail) - value) < 2e-6 * value, (degrees, tail, t_quantile(degrees, tail))
    estimate = Estimate.of_logs([0.01, 0.02, 0.03, 0.04])
    assert abs(estimate.mean - 0.025) < 1e-12 and abs(estimate.error - math.sqrt(0.0005 / 3 / 4)) < 1e-12, estimate
    assert abs(estimate.low(0.05) - (0.025 - 2.353363 * estimate.error)) < 1e-7, estimate
    assert Estimate.of_logs([0.1, 0.1]).low(0.01) == -math.inf
    assert Estimate.of_logs([0.1] * 4).error == 0.0002, "equal times are no certainty"


def rounds_are_paired_as_in_reports():
    compared = 0
    for file in sorted((SOURCE / "reports").glob("*/*/results.json")):
        report = read(file.parent)
        rows = {row["variant"]: row for row in report.results["rows"]}
        for row in report.results["rows"]:
            speed = (row.get("vs_base") or {}).get("speed")
            if row["status"] == "ok" and speed:
                logs = log_ratios(report, row, rows[row["vs_base"]["variant"]])
                assert len(logs) == speed["rounds"], (file, row["rung"])
                assert abs(sum(logs) / len(logs) - math.log(speed["value"])) < 1e-9, (file, row["rung"])
                compared += 1
    assert compared > 20, compared


def all_looks_together_spend_alpha():
    settings = Settings(alpha=0.01)
    whole = sum(spent(settings, index, look) for index in range(1, 400) for look in range(1, 400))
    assert 0.0099 < whole < 0.01, whole


def false_keeps(sessions, challengers, spread, noise, **more):
    names = [f"nothing {number}" for number in range(challengers)]
    return sum(bool(kept(night(names, World({}, spread, noise, seed), **more))) for seed in range(sessions))


def nothing_is_kept():
    assert false_keeps(200, 100, QUICKSTART, normal) <= 2
    assert false_keeps(40, 50, QUICKSTART, heavy) <= 1
    assert false_keeps(40, 50, QUICKSTART, disturbed) <= 1


def nothing_is_kept_by_looking_often():
    """The same change without effect, tried again and again, in requests of one look each."""
    bad = 0
    for seed in range(10):
        session, world = begun(), World({}, QUICKSTART, normal, seed)
        for number in range(60):
            seconds = 25.0 if number % 2 else math.inf
            pursue(session, lambda event: None, world, Request("same", seconds, again=number % 4 == 0),
                   {"text": "same", "kind": "lua"})
        assert len(session.tries) >= 15
        bad += bool(kept(session))
    assert bad == 0, bad


def without_a_bound_more_is_kept():
    """The test of the test: with a large alpha, sessions keep changes without effect."""
    assert false_keeps(60, 20, 0.01, normal, settings=Settings(alpha=0.45, gain=0.002)) >= 2


def a_planted_gain_is_kept():
    for spread, sessions in ((QUICKSTART, 200), (0.015, 40)):
        found = 0
        for seed in range(sessions):
            names = [f"nothing {number}" for number in range(30)]
            names.insert(random.Random(seed).randrange(31), "planted")
            session = night(names, World({"planted": math.log(1.03)}, spread, normal, 1000 + seed))
            found += "planted" in kept(session)
        assert found >= 0.95 * sessions, (spread, found)


def to_a_loss_nothing_is_kept():
    """The error of times to a loss, also where most losing sides are stopped."""
    for spread, challengers in ((0.06, 10), (0.6, 3)):
        noise = Seeds()
        names = [f"nothing {number}" for number in range(challengers)]
        bad = sum(bool(kept(night(names, World({}, spread, noise, seed), seconds=200.0))) for seed in range(200))
        assert bad <= 2, (spread, bad)
        assert (noise.ended_early > 0) == (spread > 0.1), noise.ended_early


def to_a_loss_a_planted_gain_is_kept():
    found = 0
    for seed in range(60):
        names = [f"nothing {number}" for number in range(10)]
        names.insert(random.Random(seed).randrange(11), "planted")
        found += "planted" in kept(night(names, World({"planted": math.log(1.08)}, 0.06, Seeds(), 1000 + seed)))
    assert found >= 57, found


def stopped_runs_count_as_the_limit():
    def end(seconds, reached=True, number=0):
        return {"round": number, "seed": 7, "seconds": seconds, "seconds_to_loss": seconds if reached else None}

    def logs(mine, other):
        return to_loss({"seeds": [mine]}, {"seeds": [other]}, delta)

    delta = margin(Settings())
    low, high = 2 * delta - math.log(LEAD), math.log(LEAD)
    assert abs(logs(end(8), end(10)).logs[0] - math.log(1.25)) < 1e-12
    assert logs(end(15.1, False), end(10)) == ([low], 1, [])
    assert logs(end(10), end(15.1, False)) == ([high], 1, [])
    assert logs(end(30), end(10)).logs == [low] and logs(end(10), end(30)).logs == [high]
    # All steps were made before the limit: the worst for a challenger, and the least that a champion needs.
    assert logs(end(12, False), end(10)) == ([low], 0, [])
    assert logs(end(10), end(12, False)).logs == [math.log(1.2)]
    assert logs(end(12, False), end(12, False)) == ([], 0, [7])
    assert logs(end(12, number=1), end(12)) == ([], 0, [])


def the_time_limit_holds():
    world = World({"slow": math.log(0.8)}, QUICKSTART, normal, 5, seconds_per_round=10.0)
    session = night(["nothing", "slow", "conflict", "wrong"], world, seconds=100.0)
    answers = [attempt.answer["answer"] for attempt in session.tries]
    assert answers[1:] == ["slower", "broken", "broken"], answers
    assert answers[0] in ("undecided", "equal") and session.tries[0].seconds["screen"] <= 100, answers
    undecided = [attempt.answer for attempt in session.tries if attempt.answer["answer"] == "undecided"]
    assert all(event["more_rounds"] > 0 and event["more_seconds"] > 0 for event in undecided)
    assert [attempt.problem["by"] for attempt in session.tries[2:]] == ["plan", "gate"]


def another_machine_measures_again():
    world = World({"planted": math.log(1.2)}, 0.01, normal, 3)
    session = night(["planted", "nothing"], world)
    assert kept(session) == ["planted"] and not session.rechecks
    rounds = session.tries[1].rounds
    session.add({"event": "machine", "machine": "another"})
    again = pursue(session, lambda event: None, world, Request("nothing"), {"text": "nothing", "kind": "lua"})
    assert len(session.rechecks) == 1 and again.number == 3 and again.rounds >= 3 and rounds == session.tries[1].rounds


quantiles()
rounds_are_paired_as_in_reports()
all_looks_together_spend_alpha()
assert FIRST_LOOKS[0] >= 6
nothing_is_kept()
nothing_is_kept_by_looking_often()
without_a_bound_more_is_kept()
a_planted_gain_is_kept()
stopped_runs_count_as_the_limit()
to_a_loss_nothing_is_kept()
to_a_loss_a_planted_gain_is_kept()
the_time_limit_holds()
another_machine_measures_again()
