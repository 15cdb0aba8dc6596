"""The commands of optrush referee."""
import argparse
import json
import math
import pathlib
import re
import signal
import subprocess
import sys
from typing import Any, Dict, List, Optional, Tuple

from ..environments import Unusable, environment_of
from ..host import RunFailed
from . import page
from .challengers import Refused, described, with_python
from .decide import Request
from .log import Busy, Event, Log, read_events
from .lua import script
from .measure import ChampionFails, Interrupted, Machine, dry_run, machine
from .plugin_folder import BuildFailed
from .pursue import pursue
from .sentences import as_json, sentence, status, status_lines
from .session import Champion, Session, Settings

EXIT_CODES = """Exit code: 0 there is an answer, whatever it is; 1 the champion fails, or another error;
2 wrong usage; 3 another command works on the session; 128 + N interrupted by signal N."""


def seconds(text: str) -> float:
    """90s, 5m, 1h, or a number of seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time; write 90s, 5m or 1h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, None: 1}[found[2]]


class _Commands(argparse.ArgumentParser):
    """Its help contains the help of each command."""
    parts: List[argparse.ArgumentParser] = []

    def format_help(self) -> str:
        return "\n".join([super().format_help(), *(part.format_help() for part in self.parts)])


def options(words: Optional[List[str]]) -> argparse.Namespace:
    parser = _Commands(
        prog="optrush referee", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXIT_CODES,
        description="Keeps a change only if it is faster, correct and confirmed. DIR holds the session.")
    parser.add_argument("dir", metavar="DIR", type=pathlib.Path, help="folder of the session")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND",
                                     parser_class=argparse.ArgumentParser)

    init = commands.add_parser("init", help="begin a session with a champion")
    kind = init.add_mutually_exclusive_group(required=True)
    kind.add_argument("--experiment", metavar="SCRIPT",
                      help="the champion is a stack of this experiment: a file or @NAME")
    kind.add_argument("--program", action="store_true", help="the champion is a program: -- python train.py --batch 8")
    init.add_argument("--rung", default="base", help="with --experiment: the rung that is the champion (default: base)")
    init.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="argument of the script")
    init.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting of the script's base")
    init.add_argument("--plugin-path", action="append", default=[], metavar="FOLDER", help="folder with plugins")
    init.add_argument("--plugin", metavar="FOLDER",
                      help="with --experiment: build this plugin and stack it on the rung")
    init.add_argument("--environment", metavar="VENV",
                      help="with --program: virtual environment, or a file of pip freeze")
    init.add_argument("--micro-batch", type=int, default=1, help="with --program: sequences of a step")
    init.add_argument("--seq-len", type=int, default=1, help="with --program: tokens of a sequence")
    init.add_argument("--steps", type=int, help="timed steps of a run (default: of the script; 20 with --program)")
    init.add_argument("--warmup", type=int, help="untimed steps before them (default: of the script; 5 with --program)")
    init.add_argument("--alpha", type=float, default=0.01,
                      help="probability that the session keeps a change without effect (default: 0.01)")
    init.add_argument("--gain", type=float, default=0.02, help="smallest gain that matters (default: 0.02)")
    init.add_argument("--by", choices=["speed", "time-to-loss"], default="speed",
                      help="what must be better: tokens/s, or the training time to --target-loss, over seeds (default: "
                      "speed)")
    init.add_argument("--target-loss", type=float, metavar="LOSS",
                      help="with --by time-to-loss: the loss to reach (default: of the script)")
    init.add_argument("--allow", action="append", default=[], choices=["batch", "task"],
                      help="challengers may change the batch, or the model, the data or the trained function")
    init.add_argument("--timeout", type=seconds, default=600.0, help="time limit of one run (default: 10m)")
    init.add_argument("words", nargs="*", metavar="WORD", help="with --program: -- and the command")

    for name, text in (("try", "measure a challenger, and keep it if it is confirmed to be faster"),
                       ("plan", "plan a challenger without measuring it")):
        command = commands.add_parser(name, help=text, formatter_class=argparse.RawDescriptionHelpFormatter,
                                      epilog=f"Flags begin with '-', so write: {name} -- --batch=8")
        command.add_argument("challenger", help="rush.rung(...), PLUGIN[:OPTION=VALUE,...], flags or variables of the "
                             "program, a script .py, a virtual environment or its lock file, or the source folder of a "
                             "plugin")
        command.add_argument("--effect", choices=["rounding", "precision", "model"],
                             help="with a program: the difference of losses that the gate allows (default: rounding)")
        command.add_argument("--options", type=json.loads, metavar="JSON", help="options of a plugin")
    command = commands.choices["try"]
    command.add_argument("--at-most", type=seconds, default=300.0, metavar="TIME", help="time limit (default: 5m)")
    command.add_argument("--again", action="store_true", help="begin anew although there is an answer")
    commands.add_parser("status", help="print the champion, the answers and the error that is spent")
    commands.add_parser("report", help="write report.md: the kept changes, all tries and their time")
    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="print JSON")
    parser.parts = list(commands.choices.values())
    return parser.parse_args(words)


def _of_program(asked: argparse.Namespace) -> Tuple[Champion, pathlib.Path]:
    """The champion that a command describes, unplanned."""
    if not asked.words:
        raise Refused("give the command of the program: init --program -- python train.py", "missing_value")
    words = list(asked.words)
    if pathlib.Path(words[0]).name in ("python", "python3") and "/" not in words[0]:
        words[0] = "{python}"
    if asked.environment:
        made = environment_of(pathlib.Path(asked.environment), asked.dir.absolute() / "environments/first",
                              sys.executable)
        words = with_python(words, str(made.python.absolute()))
    train = {"world_size": 1, "micro_batch": asked.micro_batch, "accumulation": 1, "seq_len": asked.seq_len,
             "steps": asked.steps or 20, "warmup": 5 if asked.warmup is None else asked.warmup, "seed": 1}
    external = {"command": words, "changes": [], "interleave": True, "effect": "rounding", "preload": [],
                "requirements": "", "packages": ""}
    spec = {"model_kind": "program", "train": train, "env": {}, "device": "auto", "threads": 0,
            "timeout_s": asked.timeout, "validate": {"every": 0}, "start": "", "plugins": []}
    return Champion("base", spec, external, asked.plugin_path, None), pathlib.Path.cwd()


def _of_experiment(asked: argparse.Namespace) -> Tuple[Champion, pathlib.Path]:
    """The champion that is a rung of a script."""
    words = [word for name in ("arg", "set") for value in getattr(asked, name) for word in (f"--{name}", value)]
    words += [word for folder in asked.plugin_path for word in ("--plugin-path", folder)]
    for name in ("steps", "warmup"):
        if getattr(asked, name) is not None:
            words += ["--set", f"train.{name}={getattr(asked, name)}"]
    dry = dry_run(asked.experiment, words)
    names = [variant["name"] for variant in dry["variants"]]
    if asked.rung not in names:
        raise Refused(f"{asked.experiment} has no rung '{asked.rung}'; it has {', '.join(names)}", "unknown_name")
    chosen = dry["variants"][names.index(asked.rung)]
    for failure in dry["failures"]:
        if failure["variant"] == chosen["index"]:
            raise ChampionFails(f"the champion cannot run: {failure['reason']}")
    if asked.by == "time-to-loss" and asked.target_loss is None:
        asked.target_loss = dry["experiment"]["target_loss"] or None
    paths = [str(pathlib.Path(folder).absolute()) for folder in asked.plugin_path]
    champion = Champion(asked.rung, chosen["spec"], chosen["external"], paths, None)
    return champion, pathlib.Path(dry["experiment"]["script"]).parent


def init(asked: argparse.Namespace) -> Tuple[Dict[str, Any], List[str]]:
    if not 0 < asked.alpha < 0.5 or not 0 < asked.gain < 1:
        raise Refused("--alpha must be above 0 and below 0.5, and --gain above 0 and below 1")
    if asked.target_loss is not None and (asked.by == "speed" or not 0 < asked.target_loss < math.inf):
        raise Refused("--target-loss must be above 0, and needs --by time-to-loss")
    file = asked.dir / "session.jsonl"
    log = Log(file)
    try:
        if read_events(file):
            raise Refused(f"{asked.dir} has a session; give another folder", "conflict")
        champion, scripts = (_of_program if asked.program else _of_experiment)(asked)
        if asked.by == "time-to-loss" and not asked.target_loss:
            raise Refused("--by time-to-loss needs the loss that a training must reach: --target-loss 3.0",
                          "missing_value")
        settings = Settings(asked.alpha, asked.gain, sorted(set(asked.allow)), asked.timeout, asked.target_loss or 0.0)
        session = Session()
        session.settings, session.champions = settings, [champion]
        world = Machine(asked.dir.absolute(), session, scripts)
        if asked.plugin:
            if asked.program:
                raise Refused("--plugin needs --experiment; a program has no plugins", "conflict")
            planned = world.planned(described(asked.plugin, None, None))
            if "problem" in planned:
                raise ChampionFails(planned["problem"]["text"])
            champion = Champion.of(planned)
        else:
            # The files of the program, and a stack that a script can state, come from a plan of the same stack.
            dry = world._dry(script(champion, None, settings.timeout, by_loss=world.seeds(0, 1)),
                             champion.plugin_path)
            for failure in dry["failures"]:
                raise ChampionFails(f"the champion cannot run: {failure['reason']}")
            first = dry["variants"][0]
            champion = champion._replace(spec=first["spec"], external=first["external"])
        session.champions = [champion]
        if settings.target_loss:
            world.champion_reaches()
        event: Event = {"event": "session", "version": 1, "settings": settings._asdict(), "scripts": str(scripts),
                        "champion": champion._asdict(), "time": world.date()}
        log.add(event)
        log.add({"event": "machine", "machine": machine(), "time": world.date()})
    finally:
        log.close()
    return opened(asked.dir)[1], [f"The session {asked.dir} has begun. The champion is '{champion.name}'."]


def opened(folder: pathlib.Path) -> Tuple[Session, Dict[str, Any], pathlib.Path]:
    """The session of a folder, its status, and the folder of the champion's script."""
    file = folder / "session.jsonl"
    events = read_events(file) if file.is_file() else []
    if not events:
        raise Refused(f"{folder} has no session; begin one with: optrush referee {folder} init", "missing_file")
    session = Session(events)
    return session, status(session), pathlib.Path(events[0]["scripts"])


def attempt(asked: argparse.Namespace) -> Tuple[Dict[str, Any], List[str]]:
    opened(asked.dir)
    challenger = described(asked.challenger, asked.effect, asked.options)
    log = Log(asked.dir / "session.jsonl")
    try:
        session, _, scripts = opened(asked.dir)
        world = Machine(asked.dir.absolute(), session, scripts)
        here = machine()
        if not session.machines or session.machines[-1] != here:
            event: Event = {"event": "machine", "machine": here, "time": world.date()}
            log.add(event)
            session.add(event)
        say = None if asked.json else lambda text: print(text, file=sys.stderr, flush=True) if text else None
        request = Request(challenger["key"], asked.at_most, asked.again)
        made = pursue(session, log.add, world, request, challenger, say)
        return as_json(session, made), [sentence(session, made)]
    finally:
        log.close()


def plan(asked: argparse.Namespace) -> Tuple[Dict[str, Any], List[str]]:
    session, _, scripts = opened(asked.dir)
    world = Machine(asked.dir.absolute(), session, scripts)
    challenger = described(asked.challenger, asked.effect, asked.options)
    planned = world.plan(challenger)
    if "problem" in planned:
        problem = planned["problem"]
        return {"problem": problem}, [f"This plan fails ({problem['by']}): {problem['text']}"]
    known = session.latest(challenger["key"]) or session.kept(challenger["key"])
    answer = known.answer["answer"] if known and known.answer else None
    peak = planned["peak_bytes"]
    text = f"'{planned['name']}' can run." + (f" Its predicted peak is {peak / 2**20:,.0f} MiB." if peak else "")
    return ({"name": planned["name"], "peak_bytes": peak, "plugins": planned["spec"]["plugins"], "answer": answer},
            [text + (f" It was tried: {answer}." if answer else "")])


def answer(asked: argparse.Namespace) -> Tuple[Dict[str, Any], List[str]]:
    if asked.command == "init":
        return init(asked)
    if asked.command == "try":
        return attempt(asked)
    if asked.command == "plan":
        return plan(asked)
    session, state, _ = opened(asked.dir)
    if asked.command == "status":
        return state, status_lines(session)
    written = page.write(session, asked.dir)
    tries = [as_json(session, each) for each in session.tries]
    return {**state, "report": str(written), "all": tries}, [str(written)]


def _code(failed: Exception) -> Tuple[int, str]:
    """The exit code, and the code of docs/reference/errors.md."""
    if isinstance(failed, Busy):
        return 3, "conflict"
    if isinstance(failed, Interrupted):
        return failed.code, "interrupted"
    if isinstance(failed, Refused):
        return 2, failed.code
    if isinstance(failed, Unusable):
        return 2, "invalid_value"
    if isinstance(failed, BuildFailed):
        return 1, "invalid_plugin"
    if isinstance(failed, RunFailed):
        found = re.search(r"error\[(\w+)\]", str(failed))
        return 1, found[1] if found else "internal"
    return 1, "invalid_file" if isinstance(failed, ValueError) else "crashed"


def _stopped(number: int, frame: object) -> None:
    raise Interrupted(128 + number)


def main(words: Optional[List[str]] = None) -> int:
    asked = options(words)
    signal.signal(signal.SIGTERM, _stopped)
    try:
        made, lines = answer(asked)
    except KeyboardInterrupt:
        return _failed(asked, Interrupted(130))
    except (Busy, BuildFailed, ChampionFails, Interrupted, Refused, RunFailed, Unusable, ValueError, OSError,
            subprocess.CalledProcessError) as failed:
        return _failed(asked, failed)
    print(json.dumps(made, ensure_ascii=False, indent=1) if asked.json else "\n".join(lines))
    return 0


def _failed(asked: argparse.Namespace, failed: Exception) -> int:
    exit_code, code = _code(failed)
    if asked.json:
        print(json.dumps({"error": {"code": code, "message": str(failed), "exit_code": exit_code}}, ensure_ascii=False))
    text = str(failed)
    print(text if text.startswith("optrush: ") else f"optrush referee: error[{code}]: {text}", file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
