"""Programs in ladders: beside our model, where each row is compared with the stated one; and one program with itself,
where no equal rung differs and a slowdown of 3 % is found."""
import json

from support import SOURCE, folder_of_programs, host

TRAINER = SOURCE / "tests/unit/launch/fake_trainer.py"
MIXED = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "mixed",
  model = rush.llama("nano"),
  data = rush.random(),
  threads = 1,
  train = { micro_batch = 2, seq_len = 16, steps = 6, warmup = 2 },
}
exp:ladder {
  rush.rung("ours, fused", "fused_adamw"),
  rush.external { name = "theirs", command = { TRAINER, "--tokens", "32" }, effect = "model" },
  rush.rung("theirs, slower", { args = { "--slower", "1.25" } }),
  rush.rung("ours, clipped", "clip_grad_norm"),
  rush.external { name = "another", command = { TRAINER, "--tokens", "32", "--slower", "2" }, over = "theirs",
    effect = "model" },
  rush.rung("another, faster", { args = { "--slower", "1.6" } }),
  rush.rung("theirs, slowest", { args = { "--slower", "1.5" }, over = "theirs, slower" }),
  rush.rung("theirs, other losses", { args = { "--loss", "0.5" }, over = "theirs" }),
  rush.external { name = "alike", command = { TRAINER, "--tokens", "32", "--slower", "1.3" }, over = "theirs" },
  rush.rung("alike, slower", { args = { "--slower", "1.7" } }),
  rush.external { name = "not alike", command = { TRAINER, "--tokens", "32", "--loss", "0.5" },
    over = "alike, slower" },
}
exp:run({ rounds = 1 }):report()
"""
EQUAL = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "equal",
  program = { command = { TRAINER } },
  train = { micro_batch = 1, seq_len = 128, steps = 6, warmup = 2 },
}
local rungs = {}
for i = 1, 6 do rungs[i] = rush.rung("equal " .. i, {}) end
rungs[7] = rush.rung("slow", { args = { "--slower", "1.03" } })
exp:ladder(rungs)
exp:run({ rounds = 3 }):report()
"""


def rows_of(work, name, script):
    text = host(work, script.replace("TRAINER", json.dumps(str(TRAINER))), "--interleave", "off")
    results = work / f"reports/{name}/local/results.json"
    assert results.is_file(), text
    return {row["rung"]: row for row in json.loads(results.read_text())["rows"]}, text


def each_row_is_compared_with_the_stated_one(work):
    rows, text = rows_of(work, "mixed", MIXED)
    assert {name for name, row in rows.items() if row["status"] != "ok"} == {"theirs, other losses", "not alike"}, text
    for name in ("theirs, other losses", "not alike"):  # the effect of a program is relative to the one below it
        assert rows[name]["status"] == "broken", "its losses differ from the losses of 'theirs'"
    than = {name: row["vs_previous"]["rung"] for name, row in rows.items() if row["vs_previous"]}
    assert than == {"ours, fused": "base", "theirs": "ours, fused", "theirs, slower": "theirs",
                    "ours, clipped": "ours, fused", "another": "theirs", "another, faster": "another",
                    "theirs, slowest": "theirs, slower", "alike": "theirs", "alike, slower": "alike"}, than
    factors = {"theirs, slower": 1.25, "another": 2, "another, faster": 0.8, "theirs, slowest": 1.2, "alike": 1.3}
    for name, factor in factors.items():
        ratio = rows[name]["vs_previous"]["speed"]["value"]
        assert abs(ratio * factor - 1) < 0.02, (name, ratio)  # runs have a noise of 0.2 %
    assert {name for name, row in rows.items() if row["group"] == "external"} == {
        name for name in rows if name.startswith(("theirs", "another", "alike", "not alike"))}
    like_for_like = {name for name, row in rows.items() if row["vs_previous"] and not row["vs_previous"]["differs"]}
    assert like_for_like == {"ours, fused", "theirs, slower", "another, faster", "theirs, slowest", "alike",
                             "alike, slower"}


def an_equal_rung_does_not_differ(work):
    rows, text = rows_of(work, "equal", EQUAL)
    assert len(rows) == 8 and all(row["status"] == "ok" for row in rows.values()), text
    for name, row in rows.items():
        speeds = [row[to]["speed"] for to in ("vs_previous", "vs_base") if row[to]]
        for speed in speeds:
            low, high = speed["interval"]
            assert (high < 1) if name == "slow" else (low <= 1 <= high), (name, speed)
        assert name != "slow" or (len(speeds) == 2 and all(speed["verdict"] == "slower" for speed in speeds)), speeds


with folder_of_programs() as work:
    each_row_is_compared_with_the_stated_one(work)
    an_equal_rung_does_not_differ(work)
