"""Optimization Rush: measures what each training optimization really buys.

    from optimization_rush import steps      # in a training script: reports its steps (docs/guides/your_script.md)
    import optimization_rush as rush
    rush.read("reports/quickstart/local")    # the results of a report
    rush.run("quickstart.lua", label="a")    # runs an experiment

It imports only the standard library. torch, pandas, transformers and Lightning are used where a program has them.
"""
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .host import run
    from .measurement import Step, steps
    from .report import Report, read

__all__ = ["Report", "Step", "read", "run", "steps"]
_PLACES = {"steps": "measurement", "Step": "measurement", "read": "report", "Report": "report", "run": "host"}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'optimization_rush' has no attribute '{name}'; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
