"""Reports the steps of a program that cannot be changed, from the lines that it prints.

    python -m optimization_rush.logs --form nanogpt --tokens 491520 -- python train.py --log_interval=1
    python -m optimization_rush.logs --tokens 4096 --pattern 'step (?P<step>\\d+) loss (?P<loss>\\S+)' -- ./train

The host starts it as an external rung. It passes the output on, and ends the program after the steps of the run. A
pattern is a regular expression of Python with named groups: step, loss, grad_norm, milliseconds, seconds,
tokens_per_second (of all ranks), tokens_per_second_per_rank. Without a time, the time between two lines counts. The
program must print one line for each step. Its runs take turns with other rungs by runs, not by steps.
"""
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Pattern

from .files import Journal, finite, write_result

NUMBER = r"[-+]?(?:[\d,]*\.?\d+(?:[eE][-+]?\d+)?|nan|inf)"
COLOR = re.compile(r"\x1b\[[0-9;]*m")
FORMS = {
    "nanogpt": rf"^iter (?P<step>\d+): loss (?P<loss>{NUMBER}), time (?P<milliseconds>{NUMBER})ms",
    "llm.c": rf"^step\s+(?P<step>\d+)/\d+ \| loss (?P<loss>{NUMBER}) \(\S+\)\| norm (?P<grad_norm>{NUMBER}) \(\S+\)\|"
             rf".* (?P<milliseconds>{NUMBER}) ms \|",
    "torchtitan": rf"\bstep:\s*(?P<step>\d+)\s+loss:\s*(?P<loss>{NUMBER})(?:\s+grad_norm:\s*(?P<grad_norm>{NUMBER}))?"
                  rf".*?\stps:\s*(?P<tokens_per_second_per_rank>{NUMBER})",
    "megatron": rf"\biteration\s+(?P<step>\d+)/\s*\d+ \|.*?elapsed time per iteration \(ms\): "
                rf"(?P<milliseconds>{NUMBER}) \|(?:.*?\blm loss: (?P<loss>{NUMBER}) \|)?"
                rf"(?:.*?\bgrad norm: (?P<grad_norm>{NUMBER}) \|)?",
}
GROUPS = {"step", "loss", "grad_norm", "milliseconds", "seconds", "tokens_per_second", "tokens_per_second_per_rank"}


class Reader:
    """The steps in lines of output."""

    def __init__(self, pattern: Pattern[str], tokens: int, warmup: int, ranks: int) -> None:
        if unknown := pattern.groupindex.keys() - GROUPS:
            raise ValueError(f"unknown group '{sorted(unknown)[0]}'; a pattern may have {', '.join(sorted(GROUPS))}")
        self.pattern, self.tokens, self.warmup, self.ranks = pattern, tokens, warmup, ranks
        self.last: Optional[float] = None
        self.steps: List[Dict[str, Any]] = []
        self.first = self.before = 0

    def take(self, line: str, now: float) -> Optional[Dict[str, Any]]:
        """The step of a line that was printed at `now`, in seconds; None for other lines."""
        match = self.pattern.search(COLOR.sub("", line))
        if match is None:
            return None
        found = {name: float(text.replace(",", "")) for name, text in match.groupdict().items() if text is not None}
        self.check_number(int(found.get("step", self.before + 1)), line)
        seconds, self.last = self.seconds(found, now), now
        if seconds is None:
            return None  # the line begins the time of the next one
        number = len(self.steps)
        step = {"step": number, "timed": number >= self.warmup, "tokens": self.tokens, "seconds": seconds,
                "grad_norm": finite(found.get("grad_norm")), "phases": {}}
        if "loss" in self.pattern.groupindex:
            step["loss"] = finite(found.get("loss"))
        self.steps.append(step)
        return step

    def check_number(self, number: int, line: str) -> None:
        if self.last is not None and number != self.before + 1:
            raise ValueError(f"a line has step {number} after step {self.before}: {line.strip()}\n"
                             "let the program print every step (a log interval of 1)")
        self.before = number

    def seconds(self, found: Dict[str, float], now: float) -> Optional[float]:
        if "seconds" in found:
            return found["seconds"]
        if "milliseconds" in found:
            return found["milliseconds"] / 1e3
        rate = found.get("tokens_per_second", found.get("tokens_per_second_per_rank", 0) * self.ranks)
        if rate > 0:
            return self.tokens / rate
        return None if self.last is None else now - self.last


def result_of(steps: List[Dict[str, Any]], what: str) -> Dict[str, Any]:
    timed = [step["seconds"] for step in steps if step["timed"]]
    return {"schema_version": 1, "status": "ok", "reason": "", "steps": steps, "step_seconds": statistics.median(timed),
            "tokens_per_second": steps[-1]["tokens"] / statistics.median(timed),
            "notes": [f"read from the output of {what}"]}


def end(program: "subprocess.Popen[str]") -> None:
    """Ends the program and its ranks."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(program.pid, how)
            program.wait(10)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue


def parse(words: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     prog="python -m optimization_rush.logs")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--form", choices=sorted(FORMS), help="whose lines they are")
    which.add_argument("--pattern", help="regular expression of a step's line")
    parser.add_argument("--tokens", type=int, required=True, help="tokens of a step on all ranks")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- and the program with its arguments")
    given = parser.parse_args(words)
    given.command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not given.command or given.tokens <= 0:
        parser.error("give the program after --, and the number of tokens of a step: --tokens 4096 -- ./train")
    return given


def main(words: Optional[List[str]] = None) -> None:
    given = parse(words)
    with open(os.environ["OPTRUSH_SPEC"]) as text:
        train = json.load(text)["train"]
    try:
        reader = Reader(re.compile(given.pattern or FORMS[given.form]), given.tokens, train["warmup"],
                        int(os.environ.get("OPTRUSH_WORLD_SIZE", 1)))
    except (re.error, ValueError) as error:
        raise SystemExit(f"--pattern: {error}") from None
    journal, wanted = Journal(os.environ.get("OPTRUSH_METRICS")), train["warmup"] + train["steps"]
    program = subprocess.Popen(given.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True,
                               env={**os.environ, "PYTHONUNBUFFERED": "1"})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by the host"))
    try:
        assert program.stdout is not None
        for line in program.stdout:
            print(line, end="", flush=True)
            step = reader.take(line, time.perf_counter())
            if step:
                journal.add("step", **step)
            if len(reader.steps) >= wanted:
                break
        else:
            program.wait()
            report_missing(reader, program.returncode, wanted)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    finally:
        end(program)
    write_result(os.environ["OPTRUSH_OUT"], result_of(reader.steps, given.command[0]))


def report_missing(reader: Reader, code: int, wanted: int) -> None:
    """Ends with an error: the program has ended before its steps were made."""
    if code != 0:
        raise SystemExit(f"the program ended with exit code {code} after {len(reader.steps)} of {wanted} steps")
    if not reader.steps:
        raise SystemExit(f"no line of the output matches the pattern {reader.pattern.pattern}\n"
                         "compare it with the lines above, and give another --form or --pattern")
    raise SystemExit(f"the program ended after {len(reader.steps)} of {wanted} steps; let it make more, or lower "
                     "train.steps or train.warmup of the experiment")


if __name__ == "__main__":
    main()
