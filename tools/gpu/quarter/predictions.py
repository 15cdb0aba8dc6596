"""Predicts the flagship on a card from its plans: the work of each part divided by the expected rate of the card."""

import json
from types import SimpleNamespace

from predicted_parts import fp8_flops, parts_of

# Products of a Llama in bf16; 85 % of what a copy moves; forward and backward of fused attention together. With
# these rates of products and of cuDNN's attention, the plans equal the measured steps of the flagship on an H200.
FLASH, CUDNN = "flash", "cudnn"
RATES = {
    "H100": {"matmul": 692e12, "bandwidth": 2.55e12, FLASH: 226e12, CUDNN: 354e12},
    "H200": {"matmul": 692e12, "bandwidth": 3.66e12, FLASH: 226e12, CUDNN: 354e12},
}
SPEED, MEMORY, LAUNCHES = 0.08, 0.01, 0.02  # tolerances of a prediction
FP8 = 1050e12  # sustained, of float8's products
LAUNCH = 4.5e-6  # seconds of the host for each kernel


def rates_of(card):
    """The rates for the name that the driver gives the card; None: there is no expectation of its speed."""
    return next((rates for name, rates in RATES.items() if name in card), None)


def attention_kernel(variant):
    for use in variant["spec"]["plugins"]:
        if use["name"] == "flash_attention":
            return use["options"].get("kernel", CUDNN)
    return CUDNN


def predicted_rung(variant, plan, rates):
    memory, costs = plan.get("memory"), plan.get("costs")
    found = {"peak_bytes": memory["peak_bytes"]} if memory else {}
    if not costs:
        return found
    found["launches"] = costs["total"]["launches"]
    if rates:
        attention = rates.get(attention_kernel(variant), rates[CUDNN])
        used = SimpleNamespace(matmul=rates["matmul"], fp8=FP8, bandwidth=rates["bandwidth"], attention=attention)
        seconds = max(sum(parts_of(costs, used, fp8_flops(variant, plan)).values()), found["launches"] * LAUNCH)
        problem = plan["problem"]
        found["tokens_per_second"] = problem["global_batch"] * problem["seq_len"] / seconds
    return found


def plans_beside(package, card):
    """The plans that the bundle made for this kind of card; a file."""
    return package / f"plans_{next((kind for kind in RATES if kind in card), 'H100').lower()}.json"


def predicted_rungs(plans_file, card):
    """Predictions by name of the rung; empty if there are no plans. The plan of another program is of our step, so it
    predicts nothing."""
    try:
        experiments = json.loads(plans_file.read_text())
    except (OSError, ValueError):
        return {}
    rates = rates_of(card)
    return {variant["name"]: predicted_rung(variant, plan, rates)
            for experiment in experiments for variant, plan in zip(experiment["variants"], experiment["plans"])
            if plan and not variant.get("external")}
