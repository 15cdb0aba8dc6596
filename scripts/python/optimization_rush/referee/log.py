"""session.jsonl: one event a line, append-only. A command that is killed at any byte leaves a log that continues."""
import fcntl
import json
import os
import pathlib
from typing import IO, Any, Dict, List, Optional

Event = Dict[str, Any]


class Busy(Exception):
    """Another command works on this session."""


def _complete(data: bytes) -> int:
    """The length of the complete lines. A line counts once its end is written."""
    return data.rfind(b"\n") + 1


def read_events(file: pathlib.Path) -> List[Event]:
    data = file.read_bytes()
    events: List[Event] = []
    for number, line in enumerate(data[:_complete(data)].splitlines(), 1):
        try:
            events.append(json.loads(line))
        except ValueError:
            raise ValueError(f"{file}:{number}: this line is not JSON; the log was changed by hand") from None
    return events


class Log:
    """The log of one command, which holds the session's lock until it is closed."""

    def __init__(self, file: pathlib.Path) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self.lock: Optional[IO[str]] = open(file.with_suffix(".lock"), "w", encoding="utf-8")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.lock.close()
            raise Busy(f"another command works on {file.parent}; wait for its end") from None
        self.out = open(file, "ab")
        written = file.read_bytes()
        if len(written) != _complete(written):
            self.out.truncate(_complete(written))  # a killed command has left a part of a line

    def add(self, event: Event) -> None:
        """Returns when the line is on the disk."""
        self.out.write(json.dumps(event, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        self.out.flush()
        os.fsync(self.out.fileno())

    def close(self) -> None:
        self.out.close()
        if self.lock:
            self.lock.close()
            self.lock = None
