"""Writes tests/fixtures/adafactor_torch.safetensors: two parameters after each of four steps of torch.optim.Adafactor.

    python tests/parity/torch_adafactor.py

For each case (`default`, `options`) and parameter (`matrix` (5, 7), `vector` (6)): `CASE.PARAMETER.start`, and after
step N `CASE.PARAMETER.gradient.N` and `CASE.PARAMETER.value.N`; after the last step `CASE.matrix.row_var`,
`CASE.matrix.col_var` and `CASE.vector.variance`.
"""

import pathlib

import torch
from safetensors.torch import save_file

FILE = pathlib.Path(__file__).resolve().parents[1] / "fixtures/adafactor_torch.safetensors"
CASES = {
    "default": {"lr": 0.01},
    "options": {"lr": 0.7, "beta2_decay": -0.5, "eps": (1e-4, 0.02), "d": 1.5, "weight_decay": 0.1},
}

torch.manual_seed(1)
tensors = {}
for case, options in CASES.items():
    params = {
        "matrix": torch.nn.Parameter(torch.randn(5, 7, dtype=torch.float64)),
        "vector": torch.nn.Parameter(torch.full((6,), 1e-3, dtype=torch.float64)),
    }
    for name, param in params.items():
        tensors[f"{case}.{name}.start"] = param.detach().clone()
    optimizer = torch.optim.Adafactor(params.values(), **options)
    for step in range(4):
        for name, param in params.items():
            # Rows and columns of unequal size, and small gradients in the third step.
            scale = torch.logspace(-2, 1, param.numel(), dtype=torch.float64).view_as(param)
            param.grad = torch.randn_like(param) * scale * (1e-6 if step == 2 else 1)
            tensors[f"{case}.{name}.gradient.{step}"] = param.grad.clone()
        optimizer.step()
        for name, param in params.items():
            tensors[f"{case}.{name}.value.{step}"] = param.detach().clone()
    tensors[f"{case}.matrix.row_var"] = optimizer.state[params["matrix"]]["row_var"].flatten()
    tensors[f"{case}.matrix.col_var"] = optimizer.state[params["matrix"]]["col_var"].flatten()
    tensors[f"{case}.vector.variance"] = optimizer.state[params["vector"]]["variance"]
save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, FILE, {"torch": torch.__version__})
