"""A trainer with the callback as rungs: trainers_test.py MODULE PROGRAM. Skipped where MODULE is not installed."""
import importlib.util
import sys

from support import folder_of_programs, rung, run

module, program = sys.argv[1:]
if importlib.util.find_spec(module) is None:
    print(f"skipped: {module} is not installed")
    sys.exit(77)

with folder_of_programs() as work:
    plain = rung("plain", program)
    results, text = run(work, [plain, 'rush.rung("fused", { args = "--fused" })'])
    assert all(result["status"] == "ok" for result in results.values()), text
    for result in (results["plain"], results["fused"]):
        assert [step["step"] for step in result["steps"]] == list(range(8))
        assert not result["steps"][1]["timed"] and result["steps"][7]["timed"]
        assert result["turns"] == results["base"]["turns"], "they are interleaved step by step"
        assert result["memory"]["process"] > 0
    losses, fused = ([step["loss"] for step in results[name]["steps"]] for name in ("plain", "fused"))
    assert all(abs(a - b) < 2e-3 for a, b in zip(losses, fused)), (losses, fused)
    assert all(2.5 < loss < 5 for loss in losses), f"a mean over the micro-batches of a step, near log(64): {losses}"
