"""Writes tests/fixtures/nf4_bitsandbytes.safetensors: values, and their NF4 quantization by bitsandbytes.

    pip install bitsandbytes && python tests/parity/bitsandbytes_nf4.py

`value` (32, 64), `numbers` (1024 bytes, two numbers each), `scales` (32), `decoded` (32, 64).
"""

import pathlib

import bitsandbytes
import torch
from safetensors.torch import save_file

FILE = pathlib.Path(__file__).resolve().parents[1] / "fixtures/nf4_bitsandbytes.safetensors"

torch.manual_seed(1)
value = torch.randn(32, 64) * torch.logspace(-3, 1, 32).unsqueeze(1)
value[3] = 0
numbers, state = bitsandbytes.functional.quantize_4bit(value.clone(), blocksize=64, quant_type="nf4")
decoded = bitsandbytes.functional.dequantize_4bit(numbers, state)
tensors = {"value": value, "numbers": numbers.flatten(), "scales": state.absmax, "decoded": decoded}
metadata = {"bitsandbytes": bitsandbytes.__version__}
save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, FILE, metadata)
