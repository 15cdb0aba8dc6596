"""The files that a run writes for the host."""
import json
import math
import os
import resource
import sys
from typing import Any, Dict, Optional


def finite(value: Any) -> Any:
    """A number as JSON can store it: null instead of NaN and infinity."""
    return value if not isinstance(value, float) or math.isfinite(value) else None


def write_result(path: str, result: Dict[str, Any]) -> None:
    with open(path + ".tmp", "w") as text:
        json.dump(result, text, indent=1)
    os.replace(path + ".tmp", path)


class Journal:
    """Writes the lines that the host's progress line reads."""

    def __init__(self, path: Optional[str]) -> None:
        self.file = open(path, "a") if path else None

    def add(self, event: str, **fields: Any) -> None:
        if self.file:
            print(json.dumps({"event": event, **fields}), file=self.file, flush=True)


def memory_peaks(gpu: bool) -> Dict[str, int]:
    """Memory, measured like the host does: the caching allocator's peaks over the timed steps, or the resident set on a
    CPU. torch does not report the GPU memory of the whole process."""
    if gpu:
        stats = sys.modules["torch"].cuda.memory_stats()
        return {"peak_allocated": stats["active_bytes.all.peak"], "peak_reserved": stats["reserved_bytes.all.peak"]}
    return {"process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
