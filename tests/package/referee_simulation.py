"""Sessions with simulated rounds. They use the decisions, the log and the replay of the program."""
import math
import random
import sys

from support import SOURCE

sys.path.insert(0, str(SOURCE / "scripts/python"))
from optimization_rush.referee.decide import Request, margin  # noqa: E402
from optimization_rush.referee.pursue import pursue  # noqa: E402
from optimization_rush.referee.rounds import LEAD, to_loss  # noqa: E402
from optimization_rush.referee.session import Session, Settings  # noqa: E402
from optimization_rush.referee.statistics import Estimate  # noqa: E402


def normal(rng, spread):
    return rng.gauss(0, spread)


def heavy(rng, spread):
    """Student's t with three degrees of freedom, and the same standard deviation as `normal`."""
    chi = sum(rng.gauss(0, 1)**2 for _ in range(3)) / 3
    return spread / math.sqrt(3) * rng.gauss(0, 1) / math.sqrt(chi)


def disturbed(rng, spread):
    """One round in ten is disturbed, and three times as wide."""
    return rng.gauss(0, 3 * spread if rng.random() < 0.1 else spread)


class Seeds:
    """The noise of times to a loss: a run's steps to the loss scatter with the seed, and only every fifth step is
    validated. The losing side is stopped, as in the program."""

    def __init__(self, steps=200.0, every=5):
        self.steps, self.every = steps, every
        self.ended_early = 0

    def run(self, rng, spread, effect=0.0):
        steps = self.steps * math.exp(rng.gauss(-effect, spread / math.sqrt(2)))
        return float(math.ceil(steps / self.every) * self.every)

    def log(self, rng, spread, effect):
        """The logarithm that the referee takes from a round of two runs."""
        champion, challenger = self.run(rng, spread), self.run(rng, spread, effect)
        ends = []
        for mine, other in ((challenger, champion), (champion, challenger)):
            stopped = mine > LEAD * other
            ends.append({"seeds": [{"round": 0, "seed": 1, "seconds": LEAD * other + 1 if stopped else mine,
                                    "seconds_to_loss": None if stopped else mine}]})
        made = to_loss(*ends, margin(Settings()))
        assert made.unreached == [] and len(made.logs) == 1
        self.ended_early += made.ended_early
        return made.logs[0]


class World:
    """A round of a try depends on the seed, the try, the phase and its number only, as a stored run does."""

    def __init__(self, effects, spread, noise=normal, seed=0, seconds_per_round=1.0):
        self.effects, self.spread, self.noise, self.seed = effects, spread, noise, seed
        self.seconds_per_round, self.now, self.measured = seconds_per_round, 0.0, {}

    def clock(self):
        return self.now

    def date(self):
        return f"{self.now:.0f}"

    def plan(self, challenger):
        name = challenger["text"]
        if name.startswith("conflict"):
            return {"problem": {"by": "plan", "text": "two plugins replace the same slot", "code": "conflict"}}
        return {"name": name, "spec": {"of": name}, "external": {}}

    def recheck(self, rounds):
        return {"rounds": rounds, "mean": 0.01, "error": 0.001, "report": "recheck"}

    def measure(self, attempt, phase, rounds):
        name, report = attempt.challenger["text"], f"{attempt.number}-{phase}"
        if name.startswith("wrong"):
            return {"report": report, "problem": {"by": "gate", "text": "losses differ", "code": "wrong_result"}}
        place = f"{self.seed}-{report}"
        state = self.measured.get(place) or (random.Random(place), [])
        self.measured[place] = state
        rng, logs = state
        self.now += self.seconds_per_round * max(0, rounds - len(logs))
        while len(logs) < rounds:
            effect = self.effects.get(name, 0.0)
            logs.append(self.noise.log(rng, self.spread, effect) if isinstance(self.noise, Seeds) else
                        effect + self.noise(rng, self.spread))
        return {"report": report, **Estimate.of_logs(logs).as_event()}


def begun(settings=Settings()):
    session = Session()
    session.add({"event": "session", "settings": settings._asdict(), "time": "0",
                 "champion": {"name": "base", "spec": {}, "external": {}}})
    session.add({"event": "machine", "machine": "simulated"})
    return session


def night(names, world, settings=Settings(), seconds=math.inf):
    """The session after one try of each name."""
    session = begun(settings)
    for name in names:
        pursue(session, lambda event: None, world, Request(name, seconds), {"text": name, "kind": "lua"})
    return session


def kept(session):
    return [champion.name for champion in session.champions[1:]]
