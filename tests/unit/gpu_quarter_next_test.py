"""What the next quarter of an hour on a GPU runs, for tables of results."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(os.environ["OPTRUSH_SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "tools/gpu"), str(SOURCE / "bench")]
from quarter.choosing import OVERHEAD, Quarter, left_out, next_calls, open_steps, quarters_below  # noqa: E402
from quarter.stages import FIRST, SECOND, STAGES, all_steps  # noqa: E402

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
FIRST_NAMES = [step.name for step in STAGES[1].steps]


def quarter(names, card=H200, commit="a", date="2026-01-01", status="ok", **more):
    return Quarter(card, commit, date, {name: {"status": status, **more} for name in names})


def names_of(waiting):
    return [each.step.name for each in waiting]


def nothing_has_run():
    calls = next_calls([], "a")
    assert [call.minutes for call in calls] == [FIRST, SECOND]
    for call in calls:
        timed = sum(each.step.minutes for each in call.steps if not each.step.untimed)
        assert timed <= call.minutes - OVERHEAD, names_of(call.steps)
    assert names_of(calls[0].steps)[:len(FIRST_NAMES)] == FIRST_NAMES and calls[0].steps[0].why == "it has not run"
    assert names_of(calls[1].steps)[0] == "rounds", "the second call goes on where the first one ends"
    assert names_of(open_steps([], "a")) == list(all_steps()), "each step once, in the order of the stages"


def answered_steps_do_not_wait():
    waiting = open_steps([quarter(FIRST_NAMES)], "b")
    assert names_of(waiting)[0] == "rounds", "a later commit does not ask again"
    # Any card answers. The last stages ask the first steps again on the other kind of card.
    again = [each for each in waiting if each.stage == 10]
    assert names_of(again) == FIRST_NAMES
    again = [each for each in open_steps([quarter(FIRST_NAMES)], "b", "H100") if each.stage == 10]
    assert names_of(again) == FIRST_NAMES
    assert not [each for each in open_steps([quarter(FIRST_NAMES)], "b", "H200") if each.stage == 10]
    both = [quarter(FIRST_NAMES), quarter(FIRST_NAMES, H100)]
    assert not [each for each in open_steps(both, "b") if each.stage == 10]


def what_an_earlier_quarter_left_comes_first():
    ended = quarter([name for name in FIRST_NAMES if name != "peers"])
    first = open_steps([ended, quarter(["peers"], status="time limit")], "a")[0]
    assert (first.stage, first.step.name) == (1, "peers")
    assert first.why == f"it was ended by its time limit (2026-01-01, {H200})"
    first = open_steps([ended, quarter(["peers"], status="stopped")], "a")[0]
    assert first.why == f"it was stopped (2026-01-01, {H200})", first.why


def a_failed_step_waits_for_another_commit():
    found = [quarter(FIRST_NAMES), quarter(["rounds"], status="failed", commit="a")]
    assert "rounds" not in names_of(open_steps(found, "a"))
    first = open_steps(found, "b")[0]
    assert first.step.name == "rounds" and first.why == f"it failed at commit a (2026-01-01, {H200})", first
    assert "rounds" not in names_of(open_steps([*found, quarter(["rounds"], date="2026-01-02", commit="b")], "c"))


def a_step_without_its_tool_is_not_asked_again_there():
    found = [quarter(["counters"], status="left out", note="ncu is not installed")]
    assert "counters" not in names_of(open_steps(found, "b"))
    assert "counters" not in names_of(open_steps(found, "b", "H200"))
    assert "counters" in names_of(open_steps(found, "b", "H100")), "another kind of machine may have it"
    assert left_out(found) == {"counters": "ncu is not installed"}
    assert left_out([*found, quarter(["counters"], H100)]) == {}


def every_question_is_answered():
    assert next_calls([quarter(all_steps()), quarter(all_steps(), H100)], "a") == []


def the_program_reads_a_folder(folder):
    done = quarter(FIRST_NAMES)
    page = {"card": done.card, "commit": done.commit, "date": done.date, "steps": done.steps}
    (folder / "2026-01-01-h200.json").write_text(json.dumps(page))
    assert quarters_below(folder) == [done]
    command = [sys.executable, SOURCE / "tools/gpu/next", "--results", folder]
    told = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert told["stage"] == 2 and told["question"] == STAGES[2].question, told
    assert [call["minutes"] for call in told["calls"]] == [FIRST, SECOND]
    assert "stage next" in told["calls"][0]["command"]
    chunk = next(step for step in told["calls"][0]["steps"] if step["name"] == "chunk")
    assert chunk["expected"] == {"fused projections, over ladder": "1.00x to 1.015x"}, chunk
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert text.startswith(f"Stage 2: {STAGES[2].question}\n")
    assert "fused projections, over ladder: 1.00x to 1.015x" in text


def the_committed_results_can_be_read():
    for each in quarters_below(SOURCE / "reports/gpu"):
        assert each.kind in ("H100", "H200") and each.commit and set(each.steps) <= set(all_steps()), each


for case in (nothing_has_run, answered_steps_do_not_wait, what_an_earlier_quarter_left_comes_first,
             a_failed_step_waits_for_another_commit, a_step_without_its_tool_is_not_asked_again_there,
             every_question_is_answered, the_committed_results_can_be_read):
    case()
    print(case.__name__, "passed", flush=True)
with tempfile.TemporaryDirectory() as scratch:
    the_program_reads_a_folder(Path(scratch))
