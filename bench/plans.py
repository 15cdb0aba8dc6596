#!/usr/bin/env python3
"""What the plans of an experiment take, by two builds of the program in turns.

    bench/plans.py OLD_BUILD BUILD [--rounds 5] [SCRIPT ARGUMENTS...]

Each round makes a dry run by either build. Prints medians of CPU seconds and of seconds, and the ratios of the rounds.
The dry runs must print the same. By default: experiments/single_gpu.lua --as-gpu h100, with 26 plans.
"""
import argparse
import pathlib
import resource
import statistics
import subprocess
import time

SCRIPT = pathlib.Path(__file__).parents[1] / "experiments/single_gpu.lua"


def dry_run(build, script):
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    printed = subprocess.run(
        [f"{build}/bin/optrush", "run", "--dry-run", *script], capture_output=True, check=True
    ).stdout
    seconds, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"CPU seconds": cpu, "seconds": seconds, "printed": printed}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs=2, metavar="BUILD")
    parser.add_argument("--rounds", type=int, default=5)
    arguments, script = parser.parse_known_args()
    script = script or [str(SCRIPT), "--as-gpu", "h100"]
    rounds = []
    for number in range(arguments.rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        ran = {build: dry_run(arguments.builds[build], script) for build in order}
        assert ran[0]["printed"] == ran[1]["printed"], "the two builds plan differently"
        rounds.append(ran)
    for what in ("CPU seconds", "seconds"):
        old, new = ([ran[build][what] for ran in rounds] for build in (0, 1))
        ratios = sorted(before / after for before, after in zip(old, new))
        print(f"{what}: {statistics.median(old):.2f} and {statistics.median(new):.2f}; ratios "
              f"{', '.join(f'{ratio:.2f}' for ratio in ratios)}")


if __name__ == "__main__":
    main()
