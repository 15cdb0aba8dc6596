"""Does a step cost more than it did? The same spec run by the workers of two build trees, in turn.

    python bench/two_builds.py OLD_BUILD NEW_BUILD [--rounds 7] [--plugin fused_adamw]

The sample is a run, its median step; the ratio is that of paired rounds, with a 95 % interval.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

from overlap import ratio

MODEL = {"vocab_size": 256, "dim": 128, "n_layers": 4, "n_heads": 4, "n_kv_heads": 2, "ffn_dim": 384}
TRAIN = {"micro_batch": 4, "seq_len": 128, "steps": 40, "warmup": 5}


def step_seconds(build, spec, folder):
    out = folder / "out"
    command = [build / "bin" / "optrush-worker", "run", "--spec", spec, "--out", out]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((out / "result.json").read_text())
    assert result["status"] == "ok", result["reason"]
    return result["step_seconds"], result["memory"]["peak_allocated"], result["steps"][-1]["loss"]


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("old", type=pathlib.Path)
    options.add_argument("new", type=pathlib.Path)
    options.add_argument("--rounds", type=int, default=7, choices=range(2, 11))
    options.add_argument("--plugin", action="append", default=[])
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        spec = folder / "spec.json"
        plugins = [{"name": plugin} for plugin in given.plugin]
        spec.write_text(json.dumps({"model": MODEL, "train": TRAIN, "device": "cpu", "plugins": plugins}))
        runs = {"old": [], "new": []}
        for number in range(given.rounds):
            for which in sorted(runs, reverse=number % 2 == 0):
                runs[which].append(step_seconds(getattr(given, which), spec, folder))
    for which, samples in runs.items():
        seconds, peaks, losses = zip(*samples)
        print(
            f"{which}: {1e3 * sorted(seconds)[len(seconds) // 2]:.2f} ms a step, peak {peaks[0]:,} bytes, loss "
            f"{losses[0]:.6f}"
        )
    old, new = ([seconds for seconds, _, _ in runs[which]] for which in ("old", "new"))
    print("new over old: {:.3f}x [{:.3f}, {:.3f}]".format(*ratio(new, old)))


if __name__ == "__main__":
    main()
