"""The calls that make a saved state durable, saves that take longer than a rank may wait, and processes that SIGKILL
does not end.

A library before the C library (file_calls.c) records the calls and disturbs them.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

OPTRUSH = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin/optrush"
SOURCE = pathlib.Path(__file__).with_name("file_calls.c")
SCRIPT = """
local rush = require "optrush"
local ranks = rush.arg("ranks", 1)
local exp = rush.experiment {
  name = "saves", model = rush.llama "nano", device = "cpu", threads = 1,
  train = { micro_batch = 1, seq_len = 16, steps = 5, warmup = 1, world_size = ranks },
  plugins = ranks > 1 and { "ddp" } or {},
  save = { every = 2 },
}
exp:run { rounds = 1, max_restarts = 1 }
"""
STUCK = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "stuck", model = rush.llama "nano", device = "cpu", threads = 1, timeout = 4,
  train = { micro_batch = 1, seq_len = 16, steps = 1, warmup = 1 },
}
local function stays(name)
  local file = rush.arg("trapped", "") .. name
  local words = "trap '' TERM; : > " .. file .. "; while true; do sleep 0.1; done; : unkillable"
  return rush.external { name = name, command = { "bash", "-c", words } }
end
exp:ladder { stays "first", stays "second" }
exp:run { rounds = 1 }
"""
RUN = "00-base-r1"


def start(script, label, *more, **variables):
    environment = {**os.environ, "OPTRUSH_PYTHON": "/bin/false", "LD_PRELOAD": str(work / "file_calls.so"),
                   **variables}
    return subprocess.Popen([OPTRUSH, "run", script, "--label", label, *more], cwd=work, text=True, env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run(script, label, *more, code=0, **variables):
    process = start(script, label, *more, **variables)
    text, _ = process.communicate(timeout=120)
    assert process.returncode == code, (process.returncode, text)
    return text


def folder_of(label):
    return work / "reports/saves" / label / "runs" / RUN


def journal(label, event):
    lines = (work / "reports/saves" / label / "journal.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry["event"] == event]


def order_of_calls():
    """Every new state is on the disk with its names before the old one is removed."""
    run("saves.lua", "calls", FAULT_CALLS=str(work / "calls"))
    state = folder_of("calls") / "state"
    calls = [line.split(" ", 1) for line in (work / "calls").read_text().splitlines()]
    calls = [(call, path.replace(str(state), "STATE")) for call, path in calls]
    for step, before in ((4, 2), (6, 4)):
        new, old = f"STATE/step-{step:08}", f"step-{before:08}"
        head = max(i for i, call in enumerate(calls) if call == ("rename", "STATE/state.json")
                   and ("rename", f"{new}/rank-00000.safetensors") in calls[:i]
                   and ("rename", f"STATE/step-{step + 2:08}/rank-00000.safetensors") not in calls[:i])
        written = [i for i, (call, path) in enumerate(calls[:head]) if call == "rename" and path.startswith(new)]
        assert len(written) == 2, "the part and the record"
        synced = calls[written[-1]:head]
        for path in (new, "STATE", str(state.parent)):
            assert ("fsync", path) in synced, (path, synced)
        # The C++ library removes the files of a folder by their names alone.
        removed = next(i for i, (call, path) in enumerate(calls)
                       if i > head and call == "remove" and (old in path or path.startswith("rank-0")))
        assert ("fsync", "STATE") in calls[head:removed], calls[head:removed + 1]


def slow_saves():
    """Ranks that save longer than a collective may take, and longer than a save may take."""
    slow = {"FAULT_SLOW_FILE": "rank-00001.safetensors", "FAULT_SLOW_SECONDS": "10"}
    once = work / "once"
    once.touch()
    run("saves.lua", "slow", "--arg", "ranks=2", OPTRUSH_COLLECTIVE_TIMEOUT="8", FAULT_ONCE=str(once), **slow)
    assert not once.exists() and not journal("slow", "restarted")
    for rank in (0, 1):
        label = f"late-{rank}"
        once.touch()
        text = run("saves.lua", label, "--arg", "ranks=2", OPTRUSH_STATE_TIMEOUT="4", FAULT_ONCE=str(once),
                   FAULT_SLOW_FILE=f"step-00000004/rank-0000{rank}.safetensors", FAULT_SLOW_SECONDS="100")
        (fault,) = journal(label, "restarted")
        assert fault["status"] == "timeout" and fault["rank"] == rank, (fault, text)
        assert f"rank {rank} of 2 did not come within 4 s (saved/state/4)" in fault["reason"], fault
        # All parts exist when rank 0 is the late one, so it may still commit the state before it is ended.
        assert fault["kept"] in ((2, 4) if rank == 0 else (2,)), fault
        result = json.loads((folder_of(label) / "result.json").read_text())
        assert result["status"] == "ok" and len(result["steps"]) == 6, result


def little_disk():
    """A run whose states do not fit on the disk is skipped before it trains, unless they are there already."""
    (shown,) = json.loads(run("saves.lua", "little", "--dry-run", "--json"))
    saving = shown["plans"][0]["saving"]
    size, needed = sum(saving["part_bytes"]), saving["disk_bytes"]
    assert needed == 2 * size == 2 * saving["kept_bytes"], saving
    for words in ((), ("--dry-run",)):
        text = run("saves.lua", "little", *words, code=0 if words else 1, FAULT_FREE_BYTES=str(needed - 1))
        assert "skipped" in text and "its saved states need" in text and "free disk space" in text, text
        assert not (folder_of("little") / "state").exists()
    (shown,) = json.loads(run("saves.lua", "little", "--dry-run", "--json", FAULT_FREE_BYTES=str(needed - 1)))
    assert shown["failures"][0]["code"] == "file_access" and shown["plans"][0]["status"] == "skipped", shown
    # A plan for another machine does not look at this one's disk.
    assert "skipped" not in run("saves.lua", "little", "--dry-run", "--as-gpu", "h100", FAULT_FREE_BYTES="0")
    run("saves.lua", "enough", FAULT_FREE_BYTES=str(needed))
    (state,) = folder_of("enough").glob("state/step-*/rank-00000.safetensors")
    assert state.stat().st_size == size
    # The state of an interrupted run needs no space again.
    (folder_of("enough") / "result.json").unlink()
    text = run("saves.lua", "enough", "--resume", FAULT_FREE_BYTES=str(needed - size))
    assert "skipped" not in text and (folder_of("enough") / "result.json").exists(), text


def processes_that_stay():
    """They are named and left; the next run starts, and a signal ends the program with its code."""
    more = {"FAULT_UNKILLABLE": "unkillable", "OPTRUSH_KILL_TIMEOUT": "1"}
    process = start("stuck.lua", "stuck", "--interleave", "off", "--arg", f"trapped={work}/trapped-", **more)
    report = work / "reports/stuck/stuck"
    deadline = time.monotonic() + 60
    while not (work / "trapped-second").exists():  # the shell ignores SIGTERM from here on
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130, (process.returncode, text)
    assert text.count("is left, because SIGKILL does not end it: state ") == 2 and "(bash)" in text, text
    (first,) = report.glob("runs/01-*/result.json")
    assert json.loads(first.read_text())["status"] == "timeout", first.read_text()


compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
if not compiler:
    print("there is no C compiler")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", work / "file_calls.so", SOURCE,
                    "-ldl"], check=True)
    (work / "saves.lua").write_text(SCRIPT)
    (work / "stuck.lua").write_text(STUCK)
    for case in (order_of_calls, slow_saves, little_disk, processes_that_stay):
        if sys.argv[1:] and case.__name__ not in sys.argv[1:]:
            continue
        began = time.monotonic()
        case()
        print(f"{case.__name__} passed after {time.monotonic() - began:.0f} s", flush=True)
