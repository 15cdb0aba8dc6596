"""Mutation testing: changes the code in small ways, one at a time, and checks whether a test fails.

usage: python tests/mutants/mutants.py LOG [--mutants 200] [--seed 0]    picks, builds, runs; continues where it stopped
       python tests/mutants/mutants.py LOG --tell                        the table, and the mutants that survived
       python tests/mutants/mutants.py LOG --only 17                     one mutant against every test that reaches it

All mutants are built at once. An environment variable enables one of them (mutant.h). A run of every test without a
mutant records which mutants the test reaches and its duration. Then the tests that reach a mutant run with it until one
fails: quick tests and tests with a related name run first. A failed test is repeated without the mutant; if it passes
then, it has killed the mutant. LOG is a file of JSON lines and is only appended to.

The mutated sources belong to the commit at the first start. The tests belong to the working tree: a new test is built,
run, and tried with the mutants that survived.
"""
import argparse
import io
import json
import random
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from sites import Site, mutated_source, sites
from table import tell
from tests import Runner, tests_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
A_FILE = 2  # mutants in one source, so that a campaign does not rebuild every source
# Not mutated: output that only a terminal shows, and the log for developers.
NOT_MUTATED = re.compile(r"core/(launch/progress|process/terminal|base/log)\.cpp$")
# Mutants that once passed all tests. They are tried apart from the random ones.
BY_HAND = [
    ("core/train/train_step.cpp", "gradients.norm() / scale_of_gradients()", "gradients.norm()"),
    ("plugins/optimizations/clip_grad_norm/clip_grad_norm.cpp", "(limit / (gradients.norm() + 1e-6)).clamp_max(1.0)",
     "limit / (gradients.norm() + 1e-6)"),
    ("core/io/safetensors.cpp", "end - begin != size", "end - begin < size"),
    ("core/results/journal.cpp", "runs_.erase(entry.run);", ""),
]


class Log:
    def __init__(self, path):
        self.path = path
        self.mutants, self.tests, self.verdicts, self.passed = {}, {}, {}, {}
        self.head, self.built = None, False
        for line in path.read_text().splitlines() if path.exists() else []:
            self._take(json.loads(line))

    def add(self, **entry):
        with open(self.path, "ab", buffering=0) as file:  # one write a line, because other processes may append too
            file.write((json.dumps(entry) + "\n").encode())
        self._take(entry)

    def _take(self, entry):
        match entry.pop("entry"):
            case "start":
                self.head = entry
            case "built":
                self.built = True
            case "mutant":
                self.mutants[entry["id"]] = entry
            case "dropped":
                self.mutants.pop(entry["id"])
            case "test":
                self.tests[entry["name"]] = entry
            case "forgotten":
                self.tests.pop(entry["name"])
                for passed in self.passed.values():
                    passed.discard(entry["name"])
            case "flaky":
                self.tests[entry["name"]]["passes"] = False
            case "verdict":
                self.verdicts[entry["id"]] = entry
                self.passed.setdefault(entry["id"], set()).update(entry["passed"])


class Sources:
    """The files of one commit, and the copy of them that is mutated and built."""

    def __init__(self, commit, copy):
        self.copy = copy
        archive = subprocess.run(["git", "-C", ROOT, "-c", f"safe.directory={ROOT}", "archive", commit], check=True,
                                 stdout=subprocess.PIPE).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            members = [member for member in files if member.isfile()]
            self.files = {member.name: (files.extractfile(member).read(), member.mode) for member in members}
            self.links = {member.name: member.linkname for member in files if member.issym()}

    def mutable(self):
        sources = [path for path in sorted(self.files) if re.match(r"(core|plugins|tools)/.*\.cpp$", path)]
        return [path for path in sources if not NOT_MUTATED.search(path)]

    def write(self, mutants):
        """Writes only files that differ, so that only these are built."""
        chosen = {}
        for mutant in mutants.values():
            chosen.setdefault(mutant["file"], {})[mutant["id"]] = Site(**mutant["site"])
        files = {path: entry for path, entry in self.files.items() if not path.startswith("tests/")}
        for path in git("ls-files", "-co", "--exclude-standard", "tests").split("\n"):
            if (ROOT / path).is_file():
                files[path] = (ROOT / path).read_bytes(), (ROOT / path).stat().st_mode & 0o777
        for path, (content, mode) in files.items():
            file = self.copy / path
            if path in chosen:
                content = mutated_source(content, file, self.copy / "tests/mutants/mutant.h", chosen[path])
            if not file.exists() or file.read_bytes() != content:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
                file.chmod(mode)
        for path, target in self.links.items():
            if not (self.copy / path).is_symlink():
                (self.copy / path).symlink_to(target)


def git(*arguments):
    command = ["git", "-C", str(ROOT), "-c", f"safe.directory={ROOT}", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def by_hand(sources):
    for file, original, mutated in BY_HAND:
        source = sources.files[file][0].decode()
        if source.count(original) != 1:
            sys.exit(f"{file}: the text of a mutant by hand must occur once: {original}")
        before = source[:source.index(original)]
        begin = len(before.encode())
        text = f"(::optrush_mutant(%d) ? ({mutated}) : ({original}))"
        yield file, Site(begin, begin + len(original.encode()), before.count("\n") + 1, "by hand", original, mutated,
                         text)


class Picker:
    """Seeded random choice: files in proportion to their places, up to A_FILE places a file, one change a place."""

    def __init__(self, sources, seed):
        self.places = {}
        order = []
        for path in sources.mutable():
            random_here = random.Random(f"{seed} {path}")
            places = {}
            for site in sites(sources.files[path][0]):
                places.setdefault((site.begin, site.end, site.kind), []).append(site)
            here = [random_here.choice(changes) for changes in places.values()]
            random_here.shuffle(here)
            self.places[path] = here
            # Weighted without replacement: the largest of `weight` random numbers.
            if here:
                order.append((random_here.random() ** (1 / len(here)), path))
        self.order = [path for _, path in sorted(order, reverse=True)]

    def next_of(self, path, taken):
        """The file's next change that overlaps with none of the taken ones."""
        while self.places[path]:
            site = self.places[path].pop(0)
            if all(site.end <= other.begin or other.end <= site.begin for other in taken):
                return site
        return None


def choose(log, sources, options):
    """Writes the mutants into the log. A mutant that does not compile is replaced, if possible in the same file."""
    picker = Picker(sources, log.head["seed"])
    drawn = {}  # {file: its places, with the dropped ones}

    def add(path, site):
        drawn.setdefault(path, []).append(site)
        log.add(entry="mutant", id=sum(map(len, drawn.values())), file=path, site=vars(site))

    for path, site in by_hand(sources):
        add(path, site)
    while True:
        for path in picker.order:
            while (len(seeded(log)) < options.mutants and sum(m["file"] == path for m in seeded(log)) < A_FILE
                   and (site := picker.next_of(path, drawn.get(path, [])))):
                add(path, site)
        sources.write(log.mutants)
        failed = build(options)
        if not failed:
            return log.add(entry="built")
        for id in [id for file, lines in failed.items() for id in blamed(log, sources, file, lines)]:
            log.add(entry="dropped", id=id)


def seeded(log):
    return [mutant for mutant in log.mutants.values() if mutant["site"]["kind"] != "by hand"]


def blamed(log, sources, file, lines):
    """The mutants on the lines that the compiler names; if it names none of them, all mutants of the file."""
    mutants = {id: mutant["site"] for id, mutant in log.mutants.items() if sources.copy / mutant["file"] == file}
    named = [id for id, site in mutants.items()
             if any(site["line"] <= line <= site["line"] + site["original"].count("\n") for line in lines)]
    if not mutants or any(mutants[id]["kind"] == "by hand" for id in named or mutants):
        sys.exit(f"{file} does not compile: lines {sorted(lines)}")
    return named or list(mutants)


def build(options):
    """{source: lines named in its errors}, empty after a build without errors."""
    if not (options.build / "build.ninja").exists():
        find_torch = [options.python, "-c", "import torch; print(torch.__path__[0])"]
        torch = subprocess.run(find_torch, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        subprocess.run(["cmake", "-S", options.source, "-B", options.build, "-G", "Ninja", f"-DOPTRUSH_TORCH={torch}",
                        f"-DOPTRUSH_TEST_PYTHON={options.python}"], check=True)
    said = subprocess.run(["ninja", "-C", options.build, "-k", "0", "-j", str(options.jobs), "all", "optrush-tests"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if said.returncode == 0:
        return {}
    failed = {}
    for part in said.stdout.split("\nFAILED: ")[1:]:
        source = re.search(r" -c (\S+\.cpp)$", part.split("\n[")[0], re.M)
        if not source:
            sys.exit(part)
        places = re.findall(rf"^(?:\s|In file included from )*{re.escape(source[1])}:(\d+)", part.split("\n[")[0], re.M)
        failed[Path(source[1])] = {int(line) for line in places}
    if not failed:
        sys.exit(said.stdout)
    return failed


def measure(log, tests, runner):
    """Runs the tests that the log does not know, without a mutant."""
    new = [test for test in tests if test.name not in log.tests]
    for index, test in enumerate(new):
        passed, seconds, reached = runner.run(test, test.timeout * 2)
        log.add(entry="test", name=test.name, passes=passed, seconds=round(seconds, 3), reaches=reached)
        print(f"{index + 1}/{len(new)} {test.name}: {'passed' if passed else 'FAILED, left out'}, {seconds:.1f} s, "
              f"{len(reached)} mutants", flush=True)


def judge(log, id, tests, runner, budget):
    """Runs the tests that reach the mutant and have not run with it, until one fails or the budget is spent."""
    mutant = log.mutants[id]
    killers = {verdict.get("by") for other, verdict in log.verdicts.items()
               if log.mutants[other]["file"] == mutant["file"]}
    words = {Path(mutant["file"]).stem, Path(mutant["file"]).parent.name}

    def cost(test):
        near = 20 if test.name in killers else 8 if any(word in test.name for word in words) else 1
        return log.tests[test.name]["seconds"] / near

    def waits(test):
        entry = log.tests[test.name]
        return entry["passes"] and id in entry["reaches"] and test.name not in log.passed.get(id, ())

    waiting = [test for test in tests if waits(test)]
    verdict, passed, start = {"outcome": "survived"}, [], time.monotonic()
    for test in sorted(waiting, key=cost):
        usual = log.tests[test.name]["seconds"]
        if time.monotonic() - start + usual > budget:
            verdict = {"outcome": "unfinished"}
            continue
        limit = 10 + 10 * usual
        passes, seconds, _ = runner.run(test, limit, mutant=id)
        if passes:
            passed.append(test.name)
            continue
        plain, plain_seconds, _ = runner.run(test, limit)
        if seconds >= limit and plain_seconds > limit / 3:  # the machine is too busy for a verdict
            verdict = {"outcome": "unfinished"}
        elif plain:
            verdict = {"outcome": "killed", "by": test.name, "timeout": seconds >= limit}
            break
        else:
            log.add(entry="flaky", name=test.name)
    if not waiting and not log.passed.get(id):
        verdict = {"outcome": "not reached"}
    log.add(entry="verdict", id=id, **verdict, passed=passed, seconds=round(time.monotonic() - start, 1))
    print(f"{id} {mutant['file']}:{mutant['site']['line']} {verdict['outcome']} {verdict.get('by', '')}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--mutants", type=int, default=200, help="number of mutants, at the first start")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants")
    parser.add_argument("--tell", action="store_true", help="print the results in the log")
    parser.add_argument("--only", type=int, nargs="+", default=[], metavar="ID", help="only these mutants")
    parser.add_argument("--ids", type=int, nargs=2, metavar=("FIRST", "LAST"), help="mutants with these numbers")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("I", "N"),
                        help="every N-th mutant, from the I-th")
    parser.add_argument("--slow", action="store_true", help="tests labelled slow as well")
    parser.add_argument("--tests", default="", help="a pattern: only tests with such names")
    parser.add_argument("--without", default="$.", help="a pattern: no tests with such names")
    parser.add_argument("--known", action="store_true", help="only tests that are built and measured")
    parser.add_argument("--changed", help="a pattern: tests to measure and to try anew")
    parser.add_argument("--budget", type=float, default=120, help="seconds of tests for one mutant")
    parser.add_argument("--jobs", type=int, default=2, help="of the build")
    parser.add_argument("--source", type=Path, help="the copy to mutate; default: LOG.work/source")
    parser.add_argument("--build", type=Path, help="the build of the copy; default: LOG.work/build")
    parser.add_argument("--python", type=Path, default=ROOT / ".venv/bin/python", help="the tests' Python, with torch")
    options = parser.parse_args()
    work = options.log.resolve().with_suffix(".work")
    options.source, options.build = options.source or work / "source", options.build or work / "build"
    log = Log(options.log)
    ids = range(options.ids[0], options.ids[1] + 1) if options.ids else range(1, 1 << 30)
    if options.tell:
        return print(tell(log, ids))
    if not log.head:
        if git("status", "--porcelain", "core", "plugins", "tools"):
            sys.exit("core/, plugins/ or tools/ has changes that are not committed")
        log.add(entry="start", commit=git("rev-parse", "HEAD"), seed=options.seed)
    if not options.known:
        sources = Sources(log.head["commit"], options.source)
        if not log.built:
            choose(log, sources, options)
        sources.write(log.mutants)
        if broken := build(options):
            sys.exit(f"a test does not compile: {broken}")

    tests = [test for test in tests_of(options.build)
             if "lint" not in test.labels and (options.slow or "slow" not in test.labels)
             and (not options.known or test.name in log.tests)
             and re.search(options.tests, test.name) and not re.search(options.without, test.name)]
    for test in tests:
        if options.changed and re.search(options.changed, test.name) and test.name in log.tests:
            log.add(entry="forgotten", name=test.name)
    runner = Runner(work, max(log.mutants))
    measure(log, tests, runner)
    chosen = [id for id in sorted(log.mutants) if id in ids][options.part[0]::options.part[1]]
    for id in options.only or chosen:
        if log.verdicts.get(id, {}).get("outcome") != "killed" or options.only:
            judge(log, id, tests, runner, options.budget)


if __name__ == "__main__":
    main()
