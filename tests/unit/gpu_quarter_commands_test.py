"""The commands of the calls on a GPU fit the programs.

Cards of 80 GB and of 141 GB have the rungs that the stages name, `optrush run` and `optrush check` accept the options,
and a check reports the number of cases that its time had no room for."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE, OPTRUSH = Path(os.environ["OPTRUSH_SOURCE_DIR"]), Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin/optrush"
sys.path[:0] = [str(SOURCE / "tools/gpu"), str(SOURCE / "bench")]
from quarter.results import cases_left  # noqa: E402
from quarter.stages import all_steps  # noqa: E402
from quarter.steps import Places  # noqa: E402

CARDS = {"h100": 79.1 * 2**30, "h200": 139.8 * 2**30}  # bytes that the card reports


def optrush(words):
    return subprocess.run([str(word) for word in [OPTRUSH, *words]], capture_output=True, text=True, check=False)


def commands(folder, memory_bytes, stand_in=False):
    """(step, words after `python -m optimization_rush`) of each step that a card has room for."""
    at = Places(sys.executable, folder, folder / "reports", folder, memory_bytes, stand_in, ("bf16 weights",),
                ("Liger",))
    for step in all_steps().values():
        if form := step.form(memory_bytes):
            words = [str(word) for word in form.command(at)]
            if words[:3] == [sys.executable, "-m", "optimization_rush"]:
                yield step, words[3:]


def split_rungs(words):
    """The rungs of --only, and the other words."""
    rungs = [words[i + 1] for i, word in enumerate(words) if word == "--only"]
    others = [word for i, word in enumerate(words) if word != "--only" and words[i - 1] != "--only"]
    return rungs, others


def has_the_rungs(step, words, card, known):
    rungs, others = split_rungs(words)
    # What only decides where the results are: equal experiments are planned once.
    for word in ("--device", "--out", "--label", "--rounds"):
        at = others.index(word)
        others = others[:at] + others[at + 2:]
    others = [word for word in others if word not in ("--resume", "--trace")]
    planned = (*others, "--as-gpu", card, "--dry-run", "--json", "--only", "base")
    if planned not in known:
        done = optrush(planned)
        assert done.returncode == 0, f"{step.name}: {planned}\n{done.stderr}"
        known[planned] = {variant["name"] for variant in json.loads(done.stdout)[0]["variants"]}
    missing = set(rungs) - known[planned]
    assert not missing, f"{step.name}, {card}: {missing} is not in {known[planned]}"


def accepts_its_options(step, words, folder):
    """With a time limit of almost zero, all cases are listed and none runs."""
    words[words.index("--device") + 1] = "cpu"
    words[words.index("--for") + 1] = "0.1s"
    done = optrush(words)
    assert done.returncode == 0, f"{step.name}: {words}\n{done.stderr}"
    counts = json.loads((folder / "check.json").read_text())["counts"]
    assert step.cases and cases_left(folder) == counts["not run"] == sum(counts.values()) > 0, (step.name, counts)


with tempfile.TemporaryDirectory() as scratch:
    here, variants = Path(scratch), {}
    assert cases_left(here) == 0
    for card, memory_bytes in CARDS.items():
        for stand_in in (False, True):
            for step, words in commands(here, memory_bytes, stand_in):
                if words[0] == "run":
                    has_the_rungs(step, words, card, variants)
    for step, words in commands(here, CARDS["h100"]):
        if words[0] == "check":
            accepts_its_options(step, words, here)
