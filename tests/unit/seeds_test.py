"""`optrush run` with seeds: real workers. A round has one seed and one order of data; runs end at the target loss."""
import json
import math
import os
import pathlib
import subprocess
import tempfile

import jsonschema
import referencing

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "seeds",
  model = rush.llama("nano"),
  data = rush.text "text.txt",
  threads = 1,
  train = { micro_batch = 4, seq_len = 16, steps = 58, warmup = 2, lr = 3e-3 },
  validate = { every = 4, sequences = 6 },
  seeds = { 3, 1, 8 },
  target_loss = TARGET,
  stop_behind = BEHIND,
}
exp:ladder {
  rush.rung("equal", { train = { lr = 3e-3 } }),
  rush.rung("slow", { train = { lr = 1e-5 } }),
}
exp:run()
"""


def run(work, name, behind, works=True, target="4.0", words=()):
    (work / f"{name}.lua").write_text(SCRIPT.replace("BEHIND", behind).replace("TARGET", target))
    done = subprocess.run([BUILD / "bin/optrush", "run", f"{name}.lua", "--device", "cpu", "--label", name, *words],
                          capture_output=True, text=True, cwd=work)
    assert (done.returncode == 0) == works, done.stdout + done.stderr
    return done.stdout + done.stderr, work / "reports/seeds" / name


def keeps_to_its_schema(results):
    names = ("results", "run_result", "run_spec")
    schemas = [json.loads((SOURCE / f"docs/schema/{name}.schema.json").read_text()) for name in names]
    registry = referencing.Registry().with_resources(
        (schema["$id"], referencing.Resource.from_contents(schema)) for schema in schemas)
    jsonschema.Draft202012Validator(schemas[0], registry=registry).validate(results)


def stored(report):
    return {path.parent.name: {part: json.loads((path.parent / f"{part}.json").read_text())
                               for part in ("spec", "result")} for path in report.glob("runs/*/result.json")}


def losses(run):
    return [step["loss"] for step in run["result"]["steps"]]


def every_round_has_its_seed(work):
    _, report = run(work, "whole", "nil", target="0.5")
    runs = stored(report)
    for round_number, seed in enumerate((3, 1, 8), 1):
        of_round = [runs[f"{name}-r{round_number}"] for name in ("00-base", "01-equal", "02-slow")]
        assert [each["spec"]["train"]["seed"] for each in of_round] == [seed] * 3, round_number
        # Equal weights and equal batches: the first loss has equal bits, and an equal rung has them in all steps.
        assert losses(of_round[0]) == losses(of_round[1])
        assert losses(of_round[0])[0] == losses(of_round[2])[0] and losses(of_round[0]) != losses(of_round[2])
        validated = [[point["loss"] for point in each["result"]["validation"]] for each in of_round[:2]]
        assert validated[0] == validated[1], round_number
    assert len({losses(runs[f"00-base-r{number}"])[0] for number in (1, 2, 3)}) == 3, "seeds differ"
    results = json.loads((report / "results.json").read_text())
    keeps_to_its_schema(results)
    rows = {row["rung"]: row for row in results["rows"]}
    # The check of equal bits is of one seed, and holds although other seeds have other losses.
    assert rows["equal"]["status"] == "ok", rows["equal"]["reason"]
    assert [end["seed"] for end in rows["slow"]["seeds"]] == [3, 1, 8]
    ends = {name: [end["last"] for end in row["seeds"]] for name, row in rows.items()}
    difference = rows["slow"]["vs_base"]["loss"]
    assert abs(difference["difference"] - sum(a - b for a, b in zip(ends["slow"], ends["base"])) / 3) < 1e-9
    assert difference["interval"][0] > 0 and difference["rounds"] == 3
    assert rows["equal"]["vs_base"]["loss"]["difference"] == 0
    text = (report / "report.md").read_text()
    for part in ("with the seeds 3, 1 and 8", "Losses over seeds", "compares runs of seed 3"):
        assert part in text, part


def runs_end_at_the_loss(work):
    """Whichever run is first: it ends at the loss, and the others there or behind. A loaded machine changes who."""
    _, report = run(work, "race", "1.5")
    results = json.loads((report / "results.json").read_text())
    keeps_to_its_schema(results)
    runs, rows = stored(report), results["rows"]
    names = ("00-base", "01-equal", "02-slow")
    for number in (1, 2, 3):
        ends = [row["seeds"][number - 1] for row in rows]
        first = min(end["seconds_to_loss"] for end in ends if end["seconds_to_loss"])
        for name, end in zip(names, ends):
            result = runs[f"{name}-r{number}"]["result"]
            points = [(point["step"], point["loss"]) for point in result["validation"]]
            assert end["steps_to_loss"] == next((step for step, loss in points if loss <= 4.0), None), (end, points)
            if end["steps_to_loss"]:  # it ends with its turn, which has at most a quarter of the steps
                assert result["cut"] == "target loss" and end["steps"] <= end["steps_to_loss"] + 58 // 4, end
            elif "cut" in result:
                assert result["cut"] == "target loss" and end["seconds"] > 1.5 * first, (end, first)
            else:
                assert end["steps"] == 60, end
    assert all(end["seconds_to_loss"] is None for end in rows[2]["seeds"]) and "time_to_loss" not in rows[2]["vs_base"]
    pairs = [[row["seeds"][number]["seconds_to_loss"] for row in rows[:2]] for number in range(3)]
    if all(base and equal for base, equal in pairs):
        ratio = rows[1]["vs_base"]["time_to_loss"]
        assert abs(ratio["value"] - math.prod(base / equal for base, equal in pairs) ** (1 / 3)) < 1e-9, ratio
        assert ratio["interval"] and "Time to an equal loss" in (report / "report.md").read_text()
    text = (report / "report.md").read_text()
    assert "1.5 times as long as the first run of its round" in text
    # More seeds continue the report.
    _, _ = run(work, "race", "1.5", words=("--set", "seeds=[3,1,8,9]", "--resume"))
    assert {name for name, each in stored(report).items() if each["spec"]["train"]["seed"] == 9} == {
        "00-base-r4", "01-equal-r4", "02-slow-r4"}
    replaced = [path.name for path in (report / "replaced").iterdir()]
    assert replaced == ["00-base-drift"], replaced


def mistakes(work):
    for words, said in ((("--rounds", "2"), "the rounds of this experiment are its 3 seeds"),
                        (("--at-most", "1m"), "the rounds of this experiment are its 3 seeds"),
                        (("--set", "train.seed=4"), "sets train.seed"),
                        (("--set", "seeds=[1,1]"), "given twice"), (("--set", "seed=4"), "did you mean")):
        text, _ = run(work, "mistake", "1.5", works=False, words=words)
        assert said in text, (words, text)


with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)
    (place / "text.txt").write_text("".join(f"line {i}: what is held out is its end\n" for i in range(200)))
    every_round_has_its_seed(place)
    runs_end_at_the_loss(place)
    mistakes(place)
