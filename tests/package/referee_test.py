"""`optrush referee` and `optrush mcp` with programs whose speeds are known."""
import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from support import BUILD, SOURCE

sys.path.insert(0, str(SOURCE / "scripts/python"))
from optimization_rush.referee.challengers import described, rung  # noqa: E402
from optimization_rush.referee.log import read_events  # noqa: E402
from optimization_rush.referee.lua import script  # noqa: E402
from optimization_rush.referee.measure import Machine  # noqa: E402
from optimization_rush.referee.session import Champion, Session  # noqa: E402

ENVIRONMENT = {**os.environ, "OPTRUSH_PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
OPTRUSH = str(BUILD / "bin/optrush")
# Its steps have the stated seconds, so its speed does not depend on the machine.
TRAIN = """
import importlib.util, json, os, random, sys, time
seconds = 0.01
seconds *= 0.8 if "--fast" in sys.argv else 1
seconds *= 0.7 if os.environ.get("FASTER") else 1
seconds *= 1.3 if "--slow" in sys.argv else 1
seconds *= 0.5 if importlib.util.find_spec("quick") else 1
time.sleep(1 if "--sleep" in sys.argv else 0)
if "--crash" in sys.argv:
    sys.exit("no such flag")
noise = random.Random(os.getpid())
with open(os.environ["OPTRUSH_METRICS"], "a") as metrics:
    for step in range(12):
        loss = 2 - 0.1 * step + (0.5 if "--wrong" in sys.argv and step > 3 else 0)
        print(json.dumps({"event": "step", "step": step, "timed": step >= 2, "tokens": 16, "loss": loss,
                          "seconds": seconds * (1 + 0.005 * noise.uniform(-1, 1))}), file=metrics, flush=True)
"""


def command(work, *words, code=0):
    done = subprocess.run([OPTRUSH, "referee", "night", *words], cwd=work, text=True, capture_output=True,
                          env=ENVIRONMENT)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done


def attempt(work, challenger, *words):
    return json.loads(command(work, "try", "--json", "--at-most", "1h", *words, "--", challenger).stdout)


def begun(work):
    (work / "train.py").write_text(TRAIN)
    command(work, "init", "--program", "--seq-len", "16", "--steps", "10", "--warmup", "2", "--", "python", "train.py")


def environment(folder):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "quick.py").write_text("")


def answers(work):
    """What each kind of challenger answers, and what becomes of the champion."""
    made = attempt(work, "--crash")
    assert made["answer"] == "broken" and made["broken_by"]["by"] == "run", made
    made = attempt(work, "--wrong")
    assert made["answer"] == "broken" and made["broken_by"]["by"] == "gate", made
    assert made["broken_by"]["code"] == "wrong_result" and "differ" in made["sentence"], made
    made = attempt(work, "fused_adamw")
    assert made["answer"] == "broken" and made["broken_by"] | {"text": ""} == {
        "by": "plan", "code": "conflict", "text": ""} and made["cost"]["rounds"] == 0, made
    made = attempt(work, 'rush.rung("x", { arg = 1 })')
    assert made["answer"] == "broken" and "did you mean 'args'" in made["sentence"], made
    made = attempt(work, "--slow")
    assert made["answer"] == "slower" and made["confirmation"] is None, made
    low, high = made["speed"]["interval"]
    assert low < 1 / 1.28 and high > 1 / 1.32 and made["cost"]["rounds"] == 3, made
    made = attempt(work, "NOTHING=1")
    assert made["answer"] == "equal" and "excluded" in made["sentence"], made
    made = attempt(work, "--fast")
    assert made["answer"] == "faster" and made["confirmation"] == 1, made
    low, high = made["speed"]["interval"]
    assert low < 1.26 and high > 1.24 and 1.2 < made["at_least"] < 1.26 and made["speed"]["rounds"] == 6, made
    guide = (SOURCE / "docs/guides/referee.md").read_text()
    shown = json.loads(guide.split("answer has this form:\n\n```json\n")[1].split("```")[0])
    assert shown.keys() == made.keys() and shown["speed"].keys() == made["speed"].keys(), made
    # On the new champion.
    made = attempt(work, "FASTER=1")
    assert made["answer"] == "faster" and made["confirmation"] == 2, made
    assert abs(made["speed"]["value"] - 1 / 0.7) < 0.02 and abs(made["total"] - 1.25 / 0.7) < 0.03, made
    environment(work / "venv")
    made = attempt(work, "venv")
    assert made["answer"] == "faster" and abs(made["speed"]["value"] - 2) < 0.03, made
    # A known challenger costs nothing.
    before = (work / "night/session.jsonl").read_bytes()
    assert attempt(work, "--fast")["try"] == 7 and (work / "night/session.jsonl").read_bytes() == before
    state = json.loads(command(work, "status", "--json").stdout)
    assert state["kept"] == ["--fast", "FASTER=1", "venv"] and state["confirmations"] == 3, state
    assert abs(state["error"]["spent"] - 0.01 * (1 - 1 / 4)) < 1e-12 and state["answers"]["broken"] == 4, state


def running(word):
    """Whether a process has this word in its command."""
    found = subprocess.run(["ps", "-eo", "args"], text=True, stdout=subprocess.PIPE, check=True).stdout
    return word in found


def a_killed_command_continues(work):
    """Killed while it measures, the next command takes the rounds that are stored."""
    words = [OPTRUSH, "referee", "night", "try", "--json", "--", "--sleep"]
    number = len(json.loads(command(work, "report", "--json").stdout)["all"]) + 1
    killed = subprocess.Popen(words, cwd=work, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = work / f"night/tries/{number:03}-screen/journal.jsonl"
    while not journal.is_file() or journal.read_text().count('"event":"finished"') < 2:
        assert killed.poll() is None, "it ended before the first round"
        time.sleep(0.05)
    busy = command(work, "try", "--json", "--", "--sleep", code=3)
    assert json.loads(busy.stdout)["error"]["code"] == "conflict", busy.stdout
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    while running(f"referee-{number:03}-screen.lua"):  # its run ends by itself
        time.sleep(0.1)
    made = attempt(work, "--sleep")
    assert made["try"] == number and made["answer"] == "equal", made
    assert journal.read_text().count('"event":"started","run":"00-base-r1"') == 1, journal.read_text()


def stored_rounds_count(work):
    """A repeated command never asks for fewer rounds than its report has: `optrush run --resume` would refuse."""
    machine = Machine.__new__(Machine)
    machine.folder = work / "stored"
    runs = machine.folder / "tries/001-screen/runs"
    for run in ("00-base-drift", "00-base-r3", "01-x-r2", "01-x-r12-reference"):
        (runs / run).mkdir(parents=True)
        (runs / run / "result.json").touch()
    (runs / "01-x-r4").mkdir()
    assert machine._rounds_of("001-screen") == 3 and machine._rounds_of("002-screen") == 0


def mistakes(work):
    assert "has a session" in command(work, "init", "--program", "--", "python", "train.py", code=2).stderr
    assert "error[missing_file]" in command(work, "try", "nothing.py", code=2).stderr
    failed = json.loads(command(work, "try", "--json", "nothing.py", code=2).stdout)
    assert failed["error"]["code"] == "missing_file" and failed["error"]["exit_code"] == 2, failed
    done = subprocess.run([OPTRUSH, "referee", "none", "status"], cwd=work, text=True, capture_output=True,
                          env=ENVIRONMENT)
    assert done.returncode == 2 and "init" in done.stderr, done
    (work / "train.py").write_text(TRAIN + "\n# changed\n")
    assert "has changed" in command(work, "try", "OTHER=2", code=1).stderr
    (work / "train.py").write_text(TRAIN)


def the_report(work):
    made = json.loads(command(work, "report", "--json").stdout)
    assert len(made["all"]) == made["tries"] and made["report"] == "night/report.md", made
    page = (work / "night/report.md").read_text()
    assert "[screen](tries/" in page, page
    for text in ("3 of 11 changes are kept", "| 3 | venv |", "broken (gate)", "champion.svg", "## The time"):
        assert text in page, (text, page)
    assert (work / "night/champion.svg").read_text().count("<circle") >= 3
    assert "of the first champion" in command(work, "status").stdout


MODEL = """
local rush = require "optrush"
local exp = rush.experiment { name = "m", model = rush.llama "nano", train = { micro_batch = 2, seq_len = 16 } }
exp:ladder { rush.rung("bf16", "mixed_precision") }
exp:run():report()
"""


def a_stack_of_plugins(work):
    """The champion is a rung of a script. Plans of challengers, also on a later champion."""
    (work / "model.lua").write_text(MODEL)
    words = [OPTRUSH, "referee", "model"]
    subprocess.run([*words, "init", "--experiment", "model.lua", "--rung", "bf16"], cwd=work, env=ENVIRONMENT,
                   check=True)

    def planned(challenger):
        done = subprocess.run([*words, "plan", "--json", challenger], cwd=work, env=ENVIRONMENT, check=True, text=True,
                              stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    made = planned("fused_adamw")
    assert [use["name"] for use in made["plugins"]] == ["mixed_precision", "fused_adamw"], made
    assert made["peak_bytes"] > 0 and made["answer"] is None, made
    assert planned('rush.rung("big", { train = { micro_batch = 1000000 } })')["problem"]["by"] == "memory"
    assert planned("NAME=1")["name"] == "NAME=1"
    assert "fused_adamw" in planned("fused_adam")["problem"]["text"]
    session = Session(read_events(work / "model/session.jsonl"))
    first = session.champion
    stacked = first._replace(spec={**first.spec, "plugins": [*first.spec["plugins"],
                                                             {"name": "fused_adamw", "options": {}}]})
    (work / "over.lua").write_text(script(first, 'rush.rung("flash", "flash_attention")', 60.0, over=stacked))
    done = subprocess.run([OPTRUSH, "run", "over.lua", "--dry-run", "--json"], cwd=work, env=ENVIRONMENT, check=True,
                          text=True, stdout=subprocess.PIPE)
    stacks = [[use["name"] for use in each["spec"]["plugins"]] for each in json.loads(done.stdout)[0]["variants"]]
    assert stacks == [["mixed_precision"], ["mixed_precision", "fused_adamw"],
                      ["mixed_precision", "fused_adamw", "flash_attention"]], stacks


def rungs_of_folders(work):
    """Another version of a plugin of the champion replaces it."""
    folder = work / "plugin"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text("")
    challenger = {**described(str(folder), None, {"rank": 2}), "plugin": "norm"}
    spec = {"plugins": [{"name": "norm_1", "options": {}}]}
    champion = Champion("base", spec, {}, [], {"name": "norm", "built": "norm_1"})
    assert rung(challenger, champion, built="norm_2").endswith(
        '"norm_2", { ["rank"] = 2 }, { replace = { "norm_1" } })'), rung(challenger, champion, built="norm_2")
    keys = {described(str(folder), None, None)["key"]}
    (folder / "norm.cpp").write_text("#error this does not build\n")
    keys.add(described(str(folder), None, None)["key"])
    assert len(keys) == 2, "a changed source is another challenger"


def an_agent(work):
    """A client of the Model Context Protocol."""
    try:
        from mcp import ClientSession
        from mcp.client.stdio import StdioServerParameters, stdio_client
    except ImportError:
        done = subprocess.run([OPTRUSH, "mcp", "night"], cwd=work, text=True, capture_output=True, env=ENVIRONMENT)
        assert done.returncode == 2 and "-m pip install 'mcp>=2'" in done.stderr, done
        print("without the package mcp, only its absence was tested")
        return

    async def talk():
        server = StdioServerParameters(command=OPTRUSH, args=["mcp", str(work / "night")], env=ENVIRONMENT, cwd=work)
        async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
            await client.initialize()

            async def call(tool, **arguments):
                made = await client.call_tool(tool, arguments)
                return json.loads(made.content[0].text)

            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names == {"list_plugins", "list_experiments", "plan", "try", "status", "report"}, names
            assert any(each["name"] == "fused_adamw" for each in (await call("list_plugins"))["plugins"])
            assert any(each["name"] == "quickstart" for each in await call("list_experiments"))
            assert (await call("plan", challenger="fused_adamw"))["problem"]["by"] == "plan"
            assert (await call("plan", challenger="--new"))["name"] == "--new"
            made = await call("try", challenger="--slow", at_most="60s")
            assert made["answer"] == "slower" and made["try"] == 11, made
            assert (await call("status"))["tries"] == 11
            assert len((await call("report"))["all"]) == 11
            assert (await call("try", challenger="none.py"))["error"]["code"] == "missing_file"

    asyncio.run(talk())


with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)
    begun(place)
    rungs_of_folders(place)
    a_stack_of_plugins(place)
    answers(place)
    a_killed_command_continues(place)
    an_agent(place)
    if len(json.loads(command(place, "report", "--json").stdout)["all"]) == 10:
        attempt(place, "--slow")
    the_report(place)
    mistakes(place)
    stored_rounds_count(place)
