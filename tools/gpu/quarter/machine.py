"""The folder of a card with a processor, and the outcome of its steps. A run does not continue on another processor."""

import contextlib
import json
import threading
import zlib
from pathlib import Path

from quarter.findings import slug

ENDED = ("ok", "failed", "left out")  # the others go on in another call


def processor():
    with contextlib.suppress(OSError, StopIteration):
        return next(line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").open()
                    if line.startswith("model name"))
    return ""


class Machine:
    def __init__(self, work, card, memory_bytes):
        name = f"{slug(card)}-{zlib.crc32(processor().encode()):08x}"
        self.folder, self.card, self.memory_bytes = work / "machines" / name, card, memory_bytes
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file, self.lock = self.folder / "state.json", threading.Lock()
        self.steps = json.loads(self.file.read_text())["steps"] if self.file.exists() else {}

    def note(self, step, status, code=None, seconds=0, note=""):
        with self.lock:
            told = {"note": note} if note else {}
            self.steps[step] = {"status": status, "code": code, "seconds": round(seconds, 1), **told}
            part = self.file.with_suffix(".part")
            part.write_text(json.dumps({"card": self.card, "steps": self.steps}, indent=1))
            part.replace(self.file)

    def ended(self, step):
        return self.steps.get(step, {}).get("status") in ENDED


def other_cards(work):
    """The cards of the results so far."""
    return [json.loads(file.read_text())["card"] for file in (work / "machines").glob("*/state.json")]
