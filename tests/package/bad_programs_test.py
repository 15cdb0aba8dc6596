"""A program that does not report, or reports wrongly, ends with a reason and a cure. Nothing hangs."""
import pathlib
import sys

from support import folder_of_programs, rung, run

PROGRAMS = {
    "silent": ("print('trained')", "result"),
    "no tokens": ("from optimization_rush import steps\nfor step in steps(tokens=0):\n    pass", "steps(tokens=batch"),
    "leaves early": ("from optimization_rush import steps\nfor step in steps(tokens=8):\n    break", "result"),
    "bad loss": ("from optimization_rush import steps\nfor step in steps(tokens=8):\n    step.loss = 'low'",
                 "step 0: loss must be a number"),
}
LOGS = ("-m", "optimization_rush.logs", "--tokens", "32")
READ = {
    "no line": (("--form", "llm.c", "--", sys.executable, "-c", "print('trained')"), "no line of the output matches"),
    "few lines": (("--pattern", r"loss (?P<loss>\S+)", "--", sys.executable, "-c", "print('loss 2'); print('loss 1')"),
                  "after 1 of 8 steps"),
    "bad end": (("--form", "nanogpt", "--", sys.executable, "-c", "raise SystemExit(3)"), "exit code 3"),
    "skips": (("--form", "nanogpt", "--", sys.executable, "-c",
               "for i in range(0, 99, 10): print('iter %d: loss 1.0, time 2.00ms, mfu 1.00' % i, flush=True)"),
              "a log interval of 1"),
}
# Status and reason. The program `faulty.py` has the faults.
FAULTS = {
    "no newline": ("ok", ""),
    "prints garbage": ("ok", ""),
    "leaves a process": ("ok", ""),
    "mute": ("timeout", "append one line per step"),
    "deaf": ("timeout", "did not end within"),
    "dies": ("crashed", "ended by SIGSEGV (segmentation fault), after step 4 of 8"),
    "raises": ("crashed", "ValueError: my own error"),
    "garbage": ("failed", "it is not a JSON object: step 4 of 8\n  hint: loop over steps()"),
    "bytes": ("failed", "it is not a JSON object"),
    "half a line": ("failed", 'it is not a JSON object: {"event": "step", "step": 7, "timed": tr\n  hint: loop'),
    "text": ("failed", "field 'seconds' must be a number, but is \"fast\""),
    "infinite": ("failed", "NaN or Infinity, which JSON lacks"),
    "for ever": ("failed", "must be between 0 and 1e9"),
    "backwards": ("failed", "must be between 0 and 1e9"),
    "at once": ("failed", 'a timed step has 0 tokens or 0 seconds: {"event": "step", "step": 2,'),
    "nothing": ("failed", "a timed step has 0 tokens or 0 seconds"),
    "half": ("failed", "field 'tokens' must be an integer"),
    "misspelled": ("failed", "unknown field 'los'"),
    "list": ("failed", "field 'loss' must be a number"),
    "from 1": ("failed", "step 1 comes where step 0 is expected"),
    "twice": ("failed", "step 0 comes where step 8 is expected"),
    "leaves out": ("failed", "step 10 comes where step 1 is expected"),
    "warm-up only": ("failed", "timed steps"),
    "half a result": ("crashed", "invalid result (not valid JSON"),
    "a result without a status": ("crashed", "field 'status' is missing"),
    "talks": ("failed", "it violates the protocol of interleaved runs: not valid JSON"),
    "half a turn": ("timeout", "did not end within"),
    "rank 5": ("failed", "interleaved runs: the rank does not exist\nits message: {"),
    "goes on": ("failed", '"ready" must come first and once'),
}
LIMITED = ("mute", "deaf", "half a turn")  # each waits for its limit

with folder_of_programs() as work:
    rungs = []
    for name, (code, _) in PROGRAMS.items():
        file = name.replace(" ", "_") + ".py"
        (work / file).write_text(code + "\n")
        rungs.append(rung(name, file))
    rungs += [rung(name, *LOGS, *command, interleave=False) for name, (command, _) in READ.items()]
    rungs += [rung(name, "-S", "faulty.py", name, timeout=2 if name in LIMITED else 600) for name in FAULTS]
    results, text = run(work, rungs)
    assert results["base"]["status"] == "ok", text
    for name, (_, reason) in {**PROGRAMS, **READ}.items():
        assert results[name]["status"] in ("failed", "crashed"), (name, results[name])
        assert reason in results[name]["reason"], (name, results[name]["reason"])
    for name, (status, reason) in FAULTS.items():
        assert results[name]["status"] == status and reason in results[name]["reason"], (name, results[name])
    assert len(results["no newline"]["steps"]) == 8
    left = (work / "left.pid").read_text()
    assert not pathlib.Path("/proc", left).exists(), "the host ends what a program leaves"
