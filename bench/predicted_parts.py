#!/usr/bin/env python3
"""Time of a step by parts, on paper: what the plans of an experiment count, over the rates of a GPU.

    ./optrush run experiments/single_gpu.lua --dry-run --json --device cuda > plans.json
    bench/predicted_parts.py plans.json

A prediction that a profiler can refute. Rates are assumptions (by default an H200's: 4.3 TB/s of memory, 650 TFLOP/s of
Llama's matrix products in bf16, 237 of FlashAttention 2's forward and backward); parts are added, as if nothing
overlapped; where a step starts more kernels than the host can in that time, the host is the bound (4.5 us each).
"""

import argparse
import json
import sys

LOSS = ("log_softmax", "nll_loss", "cross_entropy", "scatter_add_", "aten::exp")


def fp8_flops(variant, plan):
    """FLOPs of the products of a step that float8 computes: all except the head's three."""
    spec, problem = variant["spec"], plan["problem"]
    if all(use["name"] != "float8" for use in spec["plugins"]):
        return 0
    head = 6 * problem["global_batch"] * problem["seq_len"] * spec["model"]["vocab_size"] * spec["model"]["dim"]
    return plan["costs"]["total"]["matmul_flops"] + plan["costs"]["total"]["noted_flops"] - head


def parts_of(costs, rates, in_fp8=0):
    """The seconds of each part."""
    total, phases = costs["total"], costs["phases"]
    products = total["matmul_flops"] + total["noted_flops"]
    loss = sum(of["bytes"] for name, of in costs["operators"].items() if any(word in name for word in LOSS))
    optimizer = phases.get("optimizer", {}).get("elementwise_bytes", 0)
    rest = total["elementwise_bytes"] - total["cast_bytes"] - loss - optimizer
    return {
        "matrix products": (products - in_fp8) / rates.matmul + in_fp8 / rates.fp8,
        "attention": total["attention_flops"] / rates.attention,
        "elementwise": rest / rates.bandwidth,
        "casts": total["cast_bytes"] / rates.bandwidth,
        "loss": loss / rates.bandwidth,
        "optimizer": optimizer / rates.bandwidth,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", help="what --dry-run --json printed")
    parser.add_argument("--bandwidth", type=float, default=4.3e12, help="bytes a second")
    parser.add_argument("--matmul", type=float, default=650e12, help="FLOP/s of matrix products")
    parser.add_argument("--fp8", type=float, default=1050e12, help="FLOP/s of float8's products")
    parser.add_argument("--attention", type=float, default=237e12, help="FLOP/s of fused attention")
    parser.add_argument("--peak", type=float, default=989e12, help="FLOP/s that the MFU is a share of")
    parser.add_argument("--launch", type=float, default=4.5e-6, help="seconds of the host for each kernel")
    rates = parser.parse_args()
    with open(rates.plans, encoding="utf-8") as file:
        experiments = json.load(file)
    for experiment in experiments:
        rows = []
        for variant, plan in zip(experiment["variants"], experiment["plans"]):
            if not plan or not plan.get("costs"):
                rows.append([variant["name"]] + ["—"] * 10)
                continue
            problem = plan["problem"]
            parts = parts_of(plan["costs"], rates, fp8_flops(variant, plan))
            seconds = max(sum(parts.values()), plan["costs"]["total"]["launches"] * rates.launch)
            tokens = problem["global_batch"] * problem["seq_len"]
            mfu = plan["flops_per_token"]["mfu"] * tokens / seconds / rates.peak
            rows.append([variant["name"]] + [f"{1e3 * part:.1f}" for part in parts.values()] +
                        [f"{1e3 * seconds:.0f}", f"{tokens / seconds:,.0f}", f"{100 * mfu:.0f} %",
                         f"{plan['memory']['peak_bytes'] / 2**30:.1f}"])
        titles = ["rung", "matrix products", "attention", "elementwise", "casts", "loss", "optimizer", "step, ms",
                  "tokens/s", "MFU", "peak, GiB"]
        print(f"### {experiment['experiment']['name']}\n")
        for row in [titles, [":---"] + ["---:"] * 10] + rows:
            print("| " + " | ".join(row) + " |")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
