"""What does sending during the backward save on a slow link?

    python bench/overlap.py [--mbit 400] [--rounds 5] [--ranks-per-host 2]

Two hosts are network namespaces on this machine, joined by a veth pair with a token-bucket limit (tc tbf): root is
needed. ddp in buckets of 1 MiB stands beside ddp in one bucket, which can be sent only when the backward is done, and
fsdp with the next unit's parameters gathered ahead beside fsdp that gathers when it needs them. Rounds are interleaved;
the ratio of step times is that of paired rounds.
"""

import argparse
import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "distributed"))
from hosts import Hosts, NotAllowed, script_with, temporary_folder  # noqa: E402

T95 = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
PAIRS = {
    "ddp": ("ddp in one bucket", "ddp in buckets"),
    "fsdp": ("fsdp when needed", "fsdp ahead"),
}


def rungs(world):
    train = f"{{ train = {{ world_size = {world} }}"
    return [
        f'rush.rung("ddp in one bucket", "ddp", {{ bucket_mb = 4096, first_bucket_mb = 4096 }}, {train} }})',
        f'rush.rung("ddp in buckets", "ddp", {{ bucket_mb = 1, first_bucket_mb = 0.25 }}, {train}, replace = "ddp" }})',
        f'rush.rung("fsdp when needed", "fsdp", {{ stage = 3, prefetch = 0 }}, {train}, replace = "ddp" }})',
        f'rush.rung("fsdp ahead", "fsdp", {{ stage = 3, prefetch = 1 }}, {train}, replace = "fsdp" }})',
    ]


def times(report, name):
    """Step time and exposed communication of each round, in seconds."""
    found = []
    for folder in sorted(report.glob("runs/*")):
        spec = json.loads((folder / "spec.json").read_text())
        if spec["rung"] != name or spec["purpose"] != "measure":
            continue
        result = json.loads((folder / "result.json").read_text())
        assert result["status"] == "ok", f"{folder}: {result['reason']}"
        found.append((result["step_seconds"], result["phases"]["communication"] or 0.0))
    return found


def ratio(numerator, denominator):
    """Geometric mean and 95 % interval of paired ratios."""
    logs = [math.log(a / b) for a, b in zip(numerator, denominator)]
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((value - mean) ** 2 for value in logs) / (len(logs) - 1) / len(logs))
    half = T95[len(logs)] * spread
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--mbit", type=int, default=400, help="rate of the link between the hosts")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--ranks-per-host", type=int, default=2)
    options.add_argument("--steps", type=int, default=8)
    given = options.parse_args()
    try:
        with Hosts(mbit=given.mbit) as hosts, temporary_folder() as folder:
            script = script_with(
                folder,
                "overlap",
                rungs(2 * given.ranks_per_host),
                steps=given.steps,
                micro_batch=4,
                dim=256,
                rounds=given.rounds,
            )
            report = hosts.train(script, given.ranks_per_host, folder, timeout=1800)
            print(f"2 hosts x {given.ranks_per_host} ranks, link {given.mbit} Mbit/s, {given.rounds} rounds\n")
            print("| | step | exposed communication | step time against the line above |")
            print("|---|---|---|---|")
            for names in PAIRS.values():
                first, second = (times(report, name) for name in names)
                for name, runs in zip(names, (first, second)):
                    steps, waits = zip(*runs)
                    row = [
                        f"{1e3 * sorted(steps)[len(steps) // 2]:.0f} ms",
                        f"{1e3 * sorted(waits)[len(waits) // 2]:.0f} ms",
                    ]
                    if runs is second:
                        low_high = ratio([s for s, _ in second], [s for s, _ in first])
                        row.append("{:.2f}x [{:.2f}, {:.2f}]".format(*low_high))
                    else:
                        row.append("")
                    print(f"| {name} | {' | '.join(row)} |")
    except NotAllowed as error:
        sys.exit(f"no network namespaces here: {error}")


if __name__ == "__main__":
    main()
