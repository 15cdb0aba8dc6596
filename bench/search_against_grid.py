"""Does exp:search find what a grid of the same parts finds, in a quarter of its runs?

    python bench/search_against_grid.py [--models nano tiny long] [--budget 10800] [--steps 6] [--choices 8] [--json FILE]

For each model, `optrush run` searches and then measures every combination of the same parts. A run has the same steps
in both, and a stack six rounds, which is the least of an experiment that ends by its intervals. The stack that was found
is looked up in the grid: its speed is the one that the grid measured, over the best that the grid measured. --budget is
the seconds that all of it may take: a quarter of each model's share is the search's, and the grid stops its rounds when
the rest is over (its first round is always whole). --choices leaves parts out from the end, for a trial.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODELS = {
    "nano": ('rush.llama "nano"', 4, 128),
    "tiny": ('rush.llama("tiny", { n_layers = 2 })', 2, 128),
    "long": ('rush.llama("nano", { n_layers = 2, max_seq_len = 1024 })', 1, 1024),
}
# An axis is a list of alternatives: a name, and what rush.rung takes after it; BATCH is the base's micro-batch.
AXES = [
    [("fused AdamW", '"fused_adamw"')],
    [("SDPA", '"flash_attention"')],
    [("fused loss", '"fused_linear_cross_entropy"')],
    [("batch x2", "{ train = { micro_batch = 2 * BATCH } }"), ("batch x4", "{ train = { micro_batch = 4 * BATCH } }")],
    [("fused kernels", '"fused_kernels"')],
    [("checkpointing", '"activation_checkpointing"'), ("SwiGLU recompute", '"swiglu_recompute"')],
    [("caching allocator", '"cpu_allocator"')],
]
SCRIPT = """local rush = require "optrush"
local BATCH = {batch}
local exp = rush.experiment {{
  name = "{name}",
  model = {model},
  data = rush.text(rush.corpus "libtorch"),
  train = {{ micro_batch = BATCH, seq_len = {seq_len}, steps = {steps}, warmup = 2 }},
}}
"""
# Any interval is narrow enough, so that every stack has the least number of rounds, in both.
UNTIL = 'within = 1, at_most = "{seconds:.0f}s"'


def rung(name, change=None):
    return f'rush.rung("{name}", {change})' if change else f'rush.rung "{name}"'


def plain(axis):
    return "no " + " or ".join(name for name, _ in axis)


def search_part(axes, seconds):
    parts = ", ".join("{ " + ", ".join(rung(*each) for each in axis) + " }" for axis in axes)
    return f"exp:search({{ {parts} }}, {{ {UNTIL.format(seconds=seconds)} }})\n"


def grid_part(axes, seconds):
    lists = ", ".join("{ " + ", ".join([rung(plain(axis))] + [rung(*each) for each in axis]) + " }" for axis in axes)
    return f"exp:grid {{ {lists} }}\nexp:run {{ {UNTIL.format(seconds=seconds)} }}\n"


def run(options, folder, script, name):
    """The report's folder, and the seconds that it took."""
    file = folder / f"{name}.lua"
    file.write_text(script)
    command = [options.build / "bin/optrush", "run", file, "--out", folder, "--device", "cpu", "--turns", options.turns]
    started = time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    # 1: a stack failed or broke the gate, which is a row of the report.
    if done.returncode not in (0, 1) or not (folder / name / "local/results.json").exists():
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return folder / name / "local", time.monotonic() - started


def runs_in(report):
    """Measured runs, those of a search's stages among them; the gate's short ones are extra."""
    ids = [file.parent.name for file in report.glob("**/runs/*/result.json") if "replaced" not in file.parts]
    return sum(name.rsplit("-", 1)[-1][:1] == "r" and name.rsplit("-", 1)[-1][1:].isdigit() for name in ids)


def speeds_of(report):
    """Tokens per second over the base's, round by round, of each combination that is sound."""
    rows = json.loads((report / "results.json").read_text())["rows"]
    combinations = [row for row in rows if row["group"] == "grid"]
    sound = {row["rung"]: row["vs_base"]["speed"] for row in combinations if row["status"] == "ok"}
    return {name: speed["value"] for name, speed in sound.items() if speed}, len(combinations)


def combination(axes, best):
    """What the grid calls the stack that a search found."""
    found = set() if best == "base" else set(best.split(" + "))
    chosen = [next((name for name, _ in axis if name in found), plain(axis)) for axis in axes]
    unknown = found - set(chosen)
    assert not unknown, unknown
    return " + ".join(chosen)


def compare(options, model, folder):
    axes, share = AXES[: options.choices], options.budget / len(options.models)
    head = dict(zip(("model", "batch", "seq_len"), MODELS[model], strict=True), steps=options.steps)
    search_s = share / 4
    searched, took = run(options, folder, SCRIPT.format(name="search", **head) + search_part(axes, search_s), "search")
    left = max(60.0, share - took)
    measured, grid_took = run(options, folder, SCRIPT.format(name="grid", **head) + grid_part(axes, left), "grid")
    tried = json.loads((searched / "tried.json").read_text())
    speeds, combinations = speeds_of(measured)
    best = max(speeds, key=speeds.get)
    found = combination(axes, tried["best"])
    return {
        "model": model,
        "combinations": combinations,
        "sound": len(speeds),
        "grid_best": best,
        "grid_best_speed": speeds[best],
        "found": found,
        "found_speed": speeds.get(found),
        "share": speeds[found] / speeds[best] if found in speeds else 0.0,
        "finished": tried["finished"],
        "search_runs": runs_in(searched),
        "grid_runs": runs_in(measured),
        "search_seconds": took,
        "grid_seconds": grid_took,
    }


def describe(line):
    speed = f"{line['found_speed']:.2f}x" if line["found_speed"] else "not sound in the grid"
    return "\n".join(
        [
            f"{line['model']}: {line['combinations']} combinations, {line['sound']} of them sound",
            f"  grid's best    {line['grid_best_speed']:.2f}x the base: {line['grid_best']}",
            f"  search found   {speed}: {line['found']}" + ("" if line["finished"] else " (time was out)"),
            f"  its speed      {line['share']:.3f} of the grid's best (0.97 is wanted)",
            f"  runs           {line['search_runs']} / {line['grid_runs']} = {line['search_runs'] / line['grid_runs']:.3f}"
            f" (0.25 is wanted), {line['search_seconds']:.0f} s / {line['grid_seconds']:.0f} s",
        ]
    )


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options.add_argument("--budget", type=float, default=10800, help="seconds for all models")
    options.add_argument("--steps", type=int, default=6)
    options.add_argument("--choices", type=int, default=len(AXES), help="how many of the parts")
    options.add_argument("--turns", choices=["auto", "on", "off"], default="off")
    options.add_argument("--keep", type=pathlib.Path, help="folder for scripts and reports; default: none is kept")
    options.add_argument("--json", type=pathlib.Path)
    given = options.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        for model in given.models:
            folder = (given.keep or pathlib.Path(temporary)).absolute() / model
            folder.mkdir(parents=True, exist_ok=True)
            lines.append(compare(given, model, folder))
            print(describe(lines[-1]), flush=True)
    if given.json:
        given.json.write_text(json.dumps(lines, indent=2) + "\n")


if __name__ == "__main__":
    main()
