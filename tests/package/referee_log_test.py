"""The log of a session: cut at any byte, the next command continues and comes to the same answers."""
import math
import os
import pathlib
import tempfile

from referee_simulation import Request, World, begun, kept, pursue
from optimization_rush.referee.log import Busy, Log, read_events
from optimization_rush.referee.session import Session

NIGHT = [("equal 1", 60), ("conflict", 60), ("good", 0.5), ("good", 200), ("wrong", 60), ("better", 200),
         ("equal 1", 60), ("slow", 60)]
EFFECTS = {"good": math.log(1.06), "better": math.log(1.2), "slow": math.log(0.8)}


def told(file, session):
    """The events that count, without times and costs."""
    left_out = {"time", "seconds", "more_seconds"}
    assert Session(read_events(file)).champion == session.champion
    return [{key: value for key, value in event.items() if key not in left_out} for event in read_events(file)]


def go_on(file, requests):
    """The remaining requests as commands: each reads the log again."""
    world = World(EFFECTS, 0.02)
    for name, seconds in requests:
        log = Log(file)
        session = Session(read_events(file))
        pursue(session, log.add, world, Request(name, seconds), {"text": name, "kind": "lua"})
        log.close()
    return Session(read_events(file))


def started(file):
    log = Log(file)
    session = begun()
    log.add({"event": "session", "settings": session.settings._asdict(), "time": "0",
             "champion": {"name": "base", "spec": {}, "external": {}}})
    log.add({"event": "machine", "machine": "simulated"})
    log.close()


def requests_before(data, whole):
    """The number of requests whose last event these bytes have."""
    complete = data.rfind(b"\n") + 1
    return sum(1 for end in whole if end <= complete)


def every_cut(work):
    file = work / "session.jsonl"
    started(file)
    ends = []  # the length of the log after each request
    for request in NIGHT:
        go_on(file, [request])
        ends.append(file.stat().st_size)
    session = Session(read_events(file))
    assert kept(session) == ["good", "better"], kept(session)
    data, complete = file.read_bytes(), told(file, session)
    first = data.index(b"\n", data.index(b"\n") + 1) + 1  # the session and its machine
    cuts = sorted({first, *(place + 1 for place, byte in enumerate(data) if byte == 10 and place >= first),
                   *(place + 20 for place, byte in enumerate(data) if byte == 10 and first <= place < len(data) - 30),
                   *(place for place, byte in enumerate(data) if byte == 10 and place >= first)})
    assert len(cuts) > 60
    for cut in cuts:
        file.write_bytes(data[:cut])
        after = go_on(file, NIGHT[requests_before(data[:cut], ends):])
        assert told(file, after) == complete, cut


def a_torn_line_is_no_event(work):
    file = work / "torn.jsonl"
    file.write_bytes(b'{"event": "machine", "machine": "a"}\n{"event": "machine", "machine": "b"}')
    assert len(read_events(file)) == 1
    log = Log(file)
    log.add({"event": "machine", "machine": "c"})
    log.close()
    assert [event["machine"] for event in read_events(file)] == ["a", "c"]
    file.write_bytes(b'{"event": \n{}\n')
    try:
        read_events(file)
    except ValueError as error:
        assert "torn.jsonl:1" in str(error)
    else:
        raise AssertionError("a line that is no JSON was accepted")


def one_command_at_a_time(work):
    log = Log(work / "busy.jsonl")
    try:
        Log(work / "busy.jsonl")
    except Busy as busy:
        assert str(work) in str(busy)
    else:
        raise AssertionError("two commands have the lock")
    log.close()
    Log(work / "busy.jsonl").close()
    child = os.fork()
    if child == 0:
        Log(work / "busy.jsonl")
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    Log(work / "busy.jsonl").close()  # a killed command leaves no lock


with tempfile.TemporaryDirectory() as folder:
    every_cut(pathlib.Path(folder))
    a_torn_line_is_no_event(pathlib.Path(folder))
    one_command_at_a_time(pathlib.Path(folder))
