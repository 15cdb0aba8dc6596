"""Does exp:search find what a grid of the same parts finds, in a quarter of its runs?

    python bench/search_against_grid.py [--models nano tiny long] [--rounds 6] [--steps 6] [--choices 7] [--keep FOLDER]
    [--json FILE]

For each model, `optrush run` measures every combination of the same parts, each in some rounds. Then it searches, in a
quarter of the seconds that this took, gate and report included. A run has the same number of steps in both. The stack
that the search found is compared with the best combination of the grid in three ways. The first uses the measured
speeds of the grid, where the best of hundreds of noisy figures is also a lucky one. The second uses a fit of the grid
(least squares on the logarithms: each part, and each pair of parts), in which each figure comes from hundreds of runs.
The third, which decides, is a separate experiment: the stack and the best --rivals combinations of both kinds run
interleaved, until the intervals are ±2 % or --final seconds are over. Its result is the speed of the stack over that of
the fastest rival. --choices N takes only the first N parts. A grid or a search that is already in the folder --keep is
not measured again.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import tempfile
import time

import numpy as np

# Share of the grid's seconds; a search takes a quarter, with the gate and the report.
SHARE = 0.22
ROOT = pathlib.Path(__file__).resolve().parents[1]
MODELS = {
    "nano": ('rush.llama "nano"', 4, 128),
    "tiny": ('rush.llama("tiny", { n_layers = 2 })', 2, 128),
    "long": ('rush.llama("nano", { n_layers = 2 })', 1, 1024),
}
# An axis is a list of alternatives: a name, and a plugin or the micro-batch over the base's.
AXES = [
    [("fused AdamW", "fused_adamw")],
    [("SDPA", "flash_attention")],
    [("fused loss", "fused_linear_cross_entropy")],
    [("batch x2", 2), ("batch x4", 4)],
    [("fused kernels", "fused_kernels")],
    [("checkpointing", "activation_checkpointing"), ("SwiGLU recompute", "swiglu_recompute")],
    [("caching allocator", "cpu_allocator")],
]
SCRIPT = """local rush = require "optrush"
local BATCH = {batch}
local exp = rush.experiment {{
  name = "{name}",
  model = {model},
  data = rush.text(rush.corpus "libtorch"),
  train = {{ micro_batch = {factor} * BATCH, seq_len = {seq_len}, steps = {steps}, warmup = 2 }},
  plugins = {{ {plugins} }},
}}
"""
PLAIN = {"factor": 1, "plugins": ""}


def rung(name, change=None):
    if change is None:
        return f'rush.rung "{name}"'
    if isinstance(change, int):
        return f'rush.rung("{name}", {{ train = {{ micro_batch = {change} * BATCH }} }})'
    return f'rush.rung("{name}", "{change}")'


def plain(axis):
    return "no " + " or ".join(name for name, _ in axis)


def search_part(axes, seconds):
    parts = ", ".join("{ " + ", ".join(rung(*each) for each in axis) + " }" for axis in axes)
    return f'exp:search({{ {parts} }}, {{ within = 0.03, at_most = "{seconds:.0f}s" }})\n'


def grid_part(axes, rounds):
    lists = ", ".join("{ " + ", ".join([rung(plain(axis))] + [rung(*each) for each in axis]) + " }" for axis in axes)
    return f"exp:grid {{ {lists} }}\nexp:run {{ rounds = {rounds} }}\n"


def run(options, folder, script, name, turns):
    """Runs a script. Returns the report's folder and the seconds that it took."""
    file = folder / f"{name}.lua"
    file.write_text(script)
    command = [options.build / "bin/optrush", "run", file, "--out", folder, "--device", "cpu", "--interleave", turns]
    started = time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    # 1: a stack failed or broke the gate, which is a row of the report.
    if done.returncode not in (0, 1) or not (folder / name / "local/results.json").exists():
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return folder / name / "local", time.monotonic() - started


def runs_in(report):
    """The number of measured runs, including the runs of a search's stages. The gate's short runs do not count."""
    ids = [file.parent.name for file in report.glob("**/runs/*/result.json") if "replaced" not in file.parts]
    return sum(name.rsplit("-", 1)[-1][:1] == "r" and name.rsplit("-", 1)[-1][1:].isdigit() for name in ids)


def speeds_of(report):
    """The speed of each combination that trains correctly, divided by the base's speed, round by round."""
    rows = json.loads((report / "results.json").read_text())["rows"]
    combinations = [row for row in rows if row["group"] == "grid"]
    sound = {row["rung"]: row["vs_base"]["speed"] for row in combinations if row["status"] == "ok"}
    return {name: speed["value"] for name, speed in sound.items() if speed}, len(combinations)


def combination(axes, best):
    """The grid's name of the stack that a search found."""
    found = set() if best == "base" else set(best.split(" + "))
    chosen = [next((name for name, _ in axis if name in found), plain(axis)) for axis in axes]
    unknown = found - set(chosen)
    assert not unknown, unknown
    return " + ".join(chosen)


def fitted(speeds):
    """The speed of each combination, as parts and pairs of parts explain it."""
    names = {combination: combination.split(" + ") for combination in speeds}
    effects = sorted(
        {effect for parts in names.values() for effect in (*parts, *itertools.combinations(parts, 2))}, key=str
    )
    place = {effect: i for i, effect in enumerate(effects)}
    design = np.zeros((len(speeds), len(effects)))
    for row, parts in enumerate(names.values()):
        for effect in (*parts, *itertools.combinations(parts, 2)):
            design[row, place[effect]] = 1
    logs = np.log(list(speeds.values()))
    # The columns of each axis sum to 1, so the effects are not unique, but the fitted values are.
    explained = design @ np.linalg.lstsq(design, logs, rcond=None)[0]
    return dict(zip(speeds, np.exp(explained).tolist(), strict=True))


def quoted(names):
    return ", ".join(f'"{name}"' for name in sorted(names))


def parts_of(axes, combination):
    """The plugins of a combination, and its micro-batch divided by the base's."""
    changes = [
        change
        for axis, name in zip(axes, combination.split(" + "), strict=True)
        for each, change in axis
        if each == name
    ]
    return {change for change in changes if isinstance(change, str)}, next(
        (change for change in changes if isinstance(change, int)), 1
    )


def final_part(axes, found, rivals, seconds):
    """A rung for each rival, on top of the stack that was found."""
    own, _ = parts_of(axes, found)
    lines = []
    for i, rival in enumerate(rivals):
        plugins, factor = parts_of(axes, rival)
        lines.append(
            f'rush.rung("rival {i}", '
            f'{{ plugins = {{ {quoted(plugins - own)} }}, without = {{ {quoted(own - plugins)} }},'
            f' train = {{ micro_batch = {factor} * BATCH }}, over = "base" }})'
        )
    return "exp:ladder {\n" + ",\n".join(lines) + f'\n}}\nexp:run {{ within = 0.02, at_most = "{seconds:.0f}s" }}\n'


def final(options, head, axes, folder, found, rivals):
    """The speed of the stack that was found divided by the speed of each rival, with its interval."""
    plugins, factor = parts_of(axes, found)
    script = SCRIPT.format(
        name="final", **{**head, "steps": options.final_steps}, factor=factor, plugins=quoted(plugins)
    )
    report, _ = run(options, folder, script + final_part(axes, found, rivals, options.final), "final", "on")
    rows = json.loads((report / "results.json").read_text())["rows"]
    speeds = {rivals[int(row["rung"].split()[1])]: row["vs_base"]["speed"] for row in rows[1:] if row["status"] == "ok"}
    if any(speed is None or speed["interval"] is None for speed in speeds.values()):
        raise SystemExit(f"--final {options.final:g} is too short: not every rival had three rounds in so many seconds")
    return {
        name: {"value": 1 / s["value"], "interval": [1 / s["interval"][1], 1 / s["interval"][0]]}
        for name, s in speeds.items()
    }


def kept(folder, name, measure):
    """The report and the seconds that it took. Measures it if the folder lacks it."""
    seconds = folder / f"{name}_seconds.json"
    if seconds.exists():
        return folder / name / "local", json.loads(seconds.read_text())
    report, took = measure()
    seconds.write_text(json.dumps(took))
    return report, took


def searched(options, head, axes, folder, seconds):
    script = SCRIPT.format(name="search", **head, **PLAIN) + search_part(axes, seconds)
    return kept(folder, "search", lambda: run(options, folder, script, "search", options.turns))


def measured_grid(options, head, axes, folder):
    script = SCRIPT.format(name="grid", **head, **PLAIN) + grid_part(axes, options.rounds)
    return kept(folder, "grid", lambda: run(options, folder, script, "grid", "off"))


def compare(options, model, folder):
    axes = AXES[: options.choices]
    head = dict(zip(("model", "batch", "seq_len"), MODELS[model], strict=True), steps=options.steps)
    measured, grid_took = measured_grid(options, head, axes, folder)
    report, took = searched(options, head, axes, folder, SHARE * grid_took)
    tried = json.loads((report / "tried.json").read_text())
    speeds, combinations = speeds_of(measured)
    best = max(speeds, key=speeds.get)
    found = combination(axes, tried["best"])
    fit = fitted(speeds)
    fit_best = max(fit, key=fit.get)
    ranked = [sorted(kind, key=kind.get, reverse=True)[: options.rivals] for kind in (fit, speeds)]
    rivals = [name for name in dict.fromkeys(ranked[0] + ranked[1]) if name != found]
    return {
        "model": model,
        "combinations": combinations,
        "sound": len(speeds),
        "grid_best": best,
        "grid_best_speed": speeds[best],
        "found": found,
        "found_speed": speeds.get(found),
        "share": speeds[found] / speeds[best] if found in speeds else 0.0,
        "fit_best": fit_best,
        "fit_share": fit[found] / fit[fit_best] if found in fit else 0.0,
        "final": final(options, head, axes, folder, found, rivals) if rivals else {},
        "finished": tried["finished"],
        "search_runs": runs_in(report),
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
            f"  its speed      {line['share']:.3f} of the grid's best as measured, {line['fit_share']:.3f} by the fit",
            f"  the fit's best {line['fit_best']}",
            "  of the fastest rival, side by side: "
            f"{min([1.0, *(over['value'] for over in line['final'].values())]):.3f} (0.97 is wanted)",
            *(
                f"  interleaved       {over['value']:.3f} [{over['interval'][0]:.3f}, {over['interval'][1]:.3f}] of "
                f"{rival}"
                for rival, over in sorted(line["final"].items(), key=lambda item: item[1]["value"])
            ),
            f"  runs           {line['search_runs']} / {line['grid_runs']} = "
            f"{line['search_runs'] / line['grid_runs']:.3f}"
            f" (0.25 is wanted), {line['search_seconds']:.0f} s / {line['grid_seconds']:.0f} s",
        ]
    )


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options.add_argument("--rounds", type=int, default=6, help="rounds of the grid")
    options.add_argument("--steps", type=int, default=6)
    options.add_argument("--choices", type=int, default=len(AXES), help="number of parts: the first ones count")
    options.add_argument(
        "--rivals", type=int, default=3, help="number of best combinations, measured and fitted, to compare with"
    )
    options.add_argument("--final", type=float, default=240, help="most seconds of that comparison")
    options.add_argument("--final-steps", type=int, default=20)
    options.add_argument(
        "--turns",
        choices=["auto", "on", "off"],
        default="auto",
        help="--interleave of the search; the grid has off, because it has too many workers",
    )
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
