"""docs/benchmarks/published_memory.md agrees with the plans: `quick` checks some of its rows, `all` checks every one.

`print` prints the rows of both tables from the plans. The page is for OF_TORCH, so other versions are not compared.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
from importlib.metadata import version

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
OF_TORCH, GIB = "2.15", 2**30
QUICK = ["torchtune 3B, packed (*", "torchtune 3B, packed, compile*", "torchtune 3B, 8-bit*", "torchtune 3B, QLoRA*"]


def planned(script, *options):
    """{rung: memory} of a script's plans for an A100 of 80 GB."""
    command = [BUILD / "bin/optrush", "run", SOURCE / "experiments" / script, "--dry-run", "--json",
               "--as-gpu", "a100-80", *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    dry = json.loads(done.stdout)[0]
    plans = {variant["name"]: plan for variant, plan in zip(dry["variants"], dry["plans"]) if plan}
    for name, plan in plans.items():
        assert plan.get("memory"), f"{name} has no forecast: {plan.get('reason') or plan.get('no_forecast')}"
    return {name: plan["memory"] for name, plan in plans.items() if name != "base"}


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def page():
    """{first cell: other cells} of the rows in the page's tables."""
    lines = (SOURCE / "docs/benchmarks/published_memory.md").read_text().splitlines()
    return {cells(line)[0]: cells(line)[1:] for line in lines if line.startswith("| ") and not line.startswith("|---")}


def active(memory):
    low, high = memory["least_bytes"] / GIB, memory["peak_bytes"] / GIB
    return f"{high:.1f}" if memory["bounded_by"] is None else f"{low:.1f} to {high:.1f}"


def compare(rows, name, column, text):
    """Compares the numbers of a cell, to half a percent or one of their last digit."""
    shown, now = ([float(number) for number in re.findall(r"[\d.]+", cell)] for cell in (rows[name][column], text))
    assert len(shown) == len(now), f"{name}: the page says {rows[name][column]}, the plan {text}"
    digit = 10 ** -len(rows[name][column].split(".")[-1].split()[0])
    for a, b in zip(shown, now):
        near = abs(a - b) <= max(digit * 1.01, 0.005 * b)
        assert near, f"{name}: the page says {rows[name][column]}, the plan {text}"


def check_published(only):
    rows = page()
    found = planned("published_memory.lua", *(word for rung in only for word in ("--only", rung)))
    for name, memory in found.items():
        run, published = re.fullmatch(r"(.*) \((.*)\)", name).groups()
        assert run in rows, f"{run} is not on the page"
        assert rows[run][0] == published, f"{run}: the script says {published}, the page {rows[run][0]}"
        compare(rows, run, 2, active(memory))
        compare(rows, run, 3, f"{memory['reserved_bytes'] / GIB:.1f}")
    return found


def check_savings():
    rows, memory = page(), planned("swiglu_checkpoint.lua", "--arg", "form=published")
    recomputed = [name for name in memory if ", level 1" in name]
    assert len(recomputed) == 5, memory.keys()
    for name in recomputed:
        size, published = re.fullmatch(r"(.*), level 1 \(published: (.*) GiB less\)", name).groups()
        saved = (memory[f"{size}, level 0"]["parts"]["tensors"] - memory[name]["parts"]["tensors"]) / GIB
        assert abs(saved - float(published)) < 0.001, f"{size}: {saved}, published {published}"
        assert rows[size][0] == published and rows[size][1] == f"{saved:.3f}", (size, rows[size], saved)


def print_rows():
    for name, memory in planned("published_memory.lua").items():
        run, published = re.fullmatch(r"(.*) \((.*)\)", name).groups()
        print(f"| {run} | {published} | | {active(memory)} | {memory['reserved_bytes'] / GIB:.1f} | |")
    memory = planned("swiglu_checkpoint.lua", "--arg", "form=published")
    for name in memory:
        if ", level 1" in name:
            size = name.split(", level 1")[0]
            below, own = memory[f"{size}, level 0"], memory[name]
            print(f"| {size} | {name.split('published: ')[1].split()[0]} | "
                  f"{(below['parts']['tensors'] - own['parts']['tensors']) / GIB:.3f} | "
                  f"{below['peak_bytes'] / GIB:.3f} | {own['peak_bytes'] / GIB:.3f} |")


torch = version("torch")
if sys.argv[1] == "print":
    print_rows()
elif torch.split(".")[:2] != OF_TORCH.split("."):
    print(f"skipped: the page is for torch {OF_TORCH}, and this is torch {torch}")
    sys.exit(77)
elif sys.argv[1] == "quick":
    assert len(check_published(QUICK)) == len(QUICK)
    check_savings()
else:
    found = check_published([])
    rows = {row for row in page() if re.match(r"(torch|fsdp_)", row)}
    names = {re.fullmatch(r"(.*) \(.*\)", name).group(1) for name in found}
    assert rows == names, f"only on the page: {rows - names}, only in the script: {names - rows}"
