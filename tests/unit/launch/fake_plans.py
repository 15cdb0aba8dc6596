"""Plans of the fake worker. The first word of a rung's name may be a key of PLANS."""
import os
import signal
import sys
import time

from fake_results import end_by, write


def plan_while_there(out):
    """Plans with a checkpoint, and fails if it has been removed."""
    if not os.path.exists(os.environ["FAKE_CHECKPOINT"]):
        fail_to_plan(out)


def no_plan(out, status, reason):
    write(out, {"schema_version": 1, "status": status, "reason": reason})
    sys.exit(1)


def fail_to_plan(out):
    no_plan(out, "failed", "x.lua:3: unknown option 'rnk'\n  hint: did you mean 'rank'?")


def skip_plan(out):
    no_plan(out, "skipped", "plugin 'tf32' in apply: no GPU")


def leave_a_child(out):
    """Leaves a process in the process group of the plan."""
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    write(out + ".child", child)


def say_and_end(out):
    print("the last words of a plan", flush=True)
    sys.exit(3)


PLANS = {
    "planskip": skip_plan,
    "unplanned": fail_to_plan,
    "checkpoint": plan_while_there,
    "plancrash": lambda out: end_by(signal.SIGSEGV),
    "planhang": lambda out: time.sleep(1000),
    "plankilled": lambda out: end_by(signal.SIGKILL),
    "planleaves": leave_a_child,
    "planmemory": lambda out: bytearray(512 << 20),
    "plannothing": say_and_end,
    "planvariable": lambda out: print(os.environ["OPTRUSH_OF_PLAN"], flush=True),
    "planjunk": lambda out: write(out, ["no", "plan"]),
}


def plan(spec, out):
    PLANS.get(spec["rung"].split(" ")[0], lambda out: None)(out)
    if spec["rung"].split(" ")[0] == "planjunk":
        return
    problem = dict(spec["train"])
    problem["global_batch"] = problem["micro_batch"] * problem["accumulation"] * problem["world_size"]
    made = {"schema_version": 1, "problem": problem, "model": spec["model"], "plugins": [], "slots": [], "notes": []}
    if "FAKE_MEMORY" in os.environ and spec["rung"].split(" ")[0] != "unpredicted":
        made["memory"] = {"peak_bytes": 1e8, "available_bytes": float(os.environ["FAKE_MEMORY"]), "device": "cpu"}
        if "FAKE_RESERVED" in os.environ:
            made["memory"].update(device="cuda", reserved_bytes=float(os.environ["FAKE_RESERVED"]))
    write(out, made)
