"""`optrush referee --by time-to-loss`: programs whose steps to a loss are known for each seed, and a tiny model."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from support import BUILD

ENVIRONMENT = {**os.environ, "OPTRUSH_PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
OPTRUSH = str(BUILD / "bin/optrush")
# Its loss falls by a rate that depends on the seed, as for both sides of a round, on a little noise, and on the flags.
TRAIN = """
import json, math, os, random, sys
seed = sys.argv[sys.argv.index("--seed") + 1]
rate = 0.05 * math.exp(random.Random(seed).gauss(0, 0.2)) * math.exp(random.Random(f"{seed} {sys.argv}").gauss(0, 0.01))
rate *= 0.6 if "--cheap" in sys.argv else 1.3 if "--sooner" in sys.argv else 1
rate *= 1.25 if os.environ.get("BETTER") else 1
with open(os.environ["OPTRUSH_METRICS"], "a") as metrics:
    for step in range(102):
        print(json.dumps({"event": "step", "step": step, "timed": step >= 2, "tokens": 16,
                          "loss": 4 * math.exp(-rate * step),
                          "seconds": 0.01 / (1.2 if "--cheap" in sys.argv else 1)}), file=metrics)
"""
MODEL = """
local rush = require "optrush"
rush.experiment({
  name = "m", model = rush.llama "nano", data = rush.text "text.txt", threads = 1,
  train = { micro_batch = 4, seq_len = 16, steps = 58, warmup = 2, lr = 3e-3 },
  validate = { every = 4, sequences = 6 }, target_loss = 4.0,
}):run()
"""


def command(work, session, *words, code=0):
    done = subprocess.run([OPTRUSH, "referee", session, *words], cwd=work, text=True, capture_output=True,
                          env=ENVIRONMENT)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done


def attempt(work, challenger, session="night", effect="model"):
    words = ["--effect", effect] if effect else []
    return json.loads(command(work, session, "try", "--json", "--at-most", "1h", *words, "--", challenger).stdout)


def begin(work, *words, code=0, program=("python", "train.py", "--seed", "{seed}")):
    return command(work, "night", "init", "--program", "--seq-len", "16", "--steps", "100", "--warmup", "2", *words,
                   "--", *program, code=code)


def a_session_needs_a_loss_that_the_champion_reaches(work):
    assert "--target-loss" in begin(work, "--by", "time-to-loss", code=2).stderr
    assert "--by time-to-loss" in begin(work, "--target-loss", "1", code=2).stderr
    refused = begin(work, "--by", "time-to-loss", "--target-loss", "1e-6", code=2).stderr
    assert "does not reach a loss of 1e-06: after 102 steps its training loss is" in refused, refused
    assert "give a higher --target-loss, or more --steps" in refused, refused
    text = begin(work, "--by", "time-to-loss", "--target-loss", "1", code=1, program=("python", "train.py")).stderr
    assert "does not get the seed of its round" in text and "{seed}" in text, text
    begin(work, "--by", "time-to-loss", "--target-loss", "1")


def seeds(work, report):
    rows = json.loads((work / "night" / report / "results.json").read_text())["rows"]
    first, last = ([end["seed"] for end in row["seeds"]] for row in (rows[0], rows[-1]))
    assert first == last, "both sides of a round have its seed"
    return set(first)


def programs(work):
    (work / "train.py").write_text(TRAIN)
    a_session_needs_a_loss_that_the_champion_reaches(work)
    made = attempt(work, "--cheap")
    assert made["answer"] == "slower", made
    assert abs(made["speed"]["value"] - 1.2) < 1e-6 and 0.7 < made["to_loss"]["value"] < 0.82, made
    assert "1.200x tokens/s, 0." in made["sentence"] and "x to a loss of 1 [" in made["sentence"], made["sentence"]
    made = attempt(work, "--sooner")
    assert made["answer"] == "faster" and made["confirmation"] == 1, made
    assert abs(made["speed"]["value"] - 1) < 1e-6 and 1.15 < made["to_loss"]["value"] < 1.35, made
    assert made["to_loss"]["loss"] == 1 and made["at_least"] > 1.005, made
    screening, confirmation = (seeds(work, report) for report in made["reports"])
    assert not screening & confirmation, "the seeds of a confirmation are fresh"
    assert not screening & seeds(work, "tries/001-screen"), "and those of another try as well"
    before = made["to_loss"]["value"]
    made = attempt(work, "BETTER=1")
    assert made["answer"] == "faster" and abs(made["total"] - before * made["to_loss"]["value"]) < 1e-9, made
    state = json.loads(command(work, "night", "status", "--json").stdout)
    assert state["by"] == "time-to-loss" and state["target_loss"] == 1 and state["to_loss"]["value"] > 1.4, state
    assert "of the first champion to a loss of 1" in command(work, "night", "status").stdout
    command(work, "night", "report")
    page = (work / "night/report.md").read_text()
    for text in ("reaches a loss of 1 ", "as soon as the first one", "time to a loss of 1", "1.200x tokens/s",
                 "another seed in each round"):
        assert text in page, (text, page)


def a_model(work):
    """A training that is too slow is stopped."""
    (work / "model.lua").write_text(MODEL)
    (work / "text.txt").write_text("".join(f"line {i}: what is held out is its end\n" for i in range(200)))
    command(work, "model", "init", "--experiment", "model.lua", "--by", "time-to-loss")
    made = attempt(work, 'rush.rung("low rate", { train = { lr = 1e-5 } })', session="model", effect=None)
    assert made["answer"] == "slower" and made["cost"]["rounds"] == 3 and made["to_loss"]["ended_early"] >= 1, made
    assert made["to_loss"]["loss"] == 4.0 and abs(made["to_loss"]["value"] * 1.5 - 1) < 0.011, made
    ends = [json.loads(run.read_text()) for run in (work / "model/tries/001-screen/runs").glob("01-*-r?/result.json")]
    assert sum(end.get("cut") == "target loss" for end in ends) == made["to_loss"]["ended_early"], made
    refused = json.loads(command(work, "model", "plan", "--json",
                                 'rush.rung("seed", { train = { seed = 5 } })').stdout)
    assert "sets train.seed" in refused["problem"]["text"], refused


with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)
    programs(place)
    a_model(place)
