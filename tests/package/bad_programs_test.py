"""A program that does not report, or reports wrongly, ends with a reason and a cure. Nothing hangs."""
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

with folder_of_programs() as work:
    rungs = []
    for name, (code, _) in PROGRAMS.items():
        file = name.replace(" ", "_") + ".py"
        (work / file).write_text(code + "\n")
        rungs.append(rung(name, file))
    rungs += [rung(name, *LOGS, *command, interleave=False) for name, (command, _) in READ.items()]
    results, text = run(work, rungs)
    assert results["base"]["status"] == "ok", text
    for name, (_, reason) in {**PROGRAMS, **READ}.items():
        assert results[name]["status"] in ("failed", "crashed"), (name, results[name])
        assert reason in results[name]["reason"], (name, results[name]["reason"])
