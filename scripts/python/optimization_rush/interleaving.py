"""Takes turns with the other runs of a round (docs/guides/running.md).

    turns = Interleaving()               # first of all: from here on the program has the turn
    ...                                  # set up and warm up
    for number in range(steps):
        timed = turns.step(seconds)      # of the last step; sleeps until it is this program's turn
        if turns.ended:                  # only for Interleaving(ends=True): write the result of the steps so far
            break
        ...                              # a complete step: it must have ended on the device

Without a controller that asks for turns, every step is timed and nothing waits.
"""
import json
import os
import socket
from typing import IO, Any, Dict, Optional


class Interleaving:
    def __init__(self, rank: int = 0, ranks: int = 1, ends: bool = False) -> None:
        self.place: Optional[Dict[str, Any]] = {"rank": rank, "ranks": ranks, "ends": ends}
        self.left = 0
        self.stream: Optional[IO[str]] = None
        self.alone = self.ended = False
        if path := os.environ.get("OPTRUSH_TURNS"):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(path)
            self.stream = connection.makefile("rw")

    def step(self, seconds: float = 0.0) -> bool:
        """To be called before each timed step. Returns whether the step counts. The first step of a turn with several
        steps does not, because it fills the caches."""
        if self.stream is None:
            return True
        first = self.left == 0
        if first:
            self.left = self.next(seconds)
        self.left -= 1
        return not first or self.left == 0 or self.alone

    def next(self, seconds: float) -> int:
        """Passes the turn on. Returns the number of steps of the next turn; 0: the run ends with the steps that it has
        made."""
        assert self.stream is not None
        say = {"type": "ready", **self.place} if self.place else {"type": "done"}
        self.place = None
        print(json.dumps({**say, "seconds": seconds}), file=self.stream, flush=True)
        line = self.stream.readline()
        if not line:
            raise SystemExit("the controller has ended")
        message = json.loads(line)
        self.ended = message["type"] == "end"
        self.alone = message.get("alone", False)
        return int(message.get("steps", 0))
