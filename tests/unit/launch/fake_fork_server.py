"""The fake worker as a fork server, like core/worker/fork_server_command.cpp."""
import json
import os
import signal
import socket
import sys
import time

from fake_results import end_by


def fork_server(main):
    """Each requested process calls main().

    A server for plans adds a line to $FAKE_FORK_SERVERS at its start, one for runs to $FAKE_RUN_SERVERS.
    $FAKE_FORK_SERVER names its fault.
    """
    fault, host, channel = os.environ.get("FAKE_FORK_SERVER", ""), os.getppid(), socket.socket(fileno=0)
    starts = "FAKE_FORK_SERVERS" if "--plans" in sys.argv else "FAKE_RUN_SERVERS"
    if starts in os.environ:
        with open(os.environ[starts], "a") as file:
            print(os.getpid(), file=file)
    if fault == "hang":
        time.sleep(1000)
    if fault == "exit":
        sys.exit(3)
    for line in channel.makefile("r"):
        request = json.loads(line)
        if fault == "threads":
            channel.sendall(b'{"refused": "it has 2 threads"}\n')
            continue
        if fault == "group":
            channel.sendall(b'{"pid": -4711}\n{"begun": true}\n')
            continue
        if fault == "junk":
            channel.sendall(b"pid 4711\n")
            continue
        number, go = os.pipe(), os.pipe()
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child == 0:
                return begin(request, host, go, channel, main)
            os.write(number[1], b"%d" % child)
            os._exit(0)
        os.close(number[1])
        child = int(os.read(number[0], 100))
        os.waitpid(between, 0)
        if fault == "untold":  # the server ends before it lets the new process begin
            channel.sendall(b'{"pid": %d}\n' % child)
            end_by(signal.SIGKILL)
        if fault == "silent":
            time.sleep(1000)
        channel.sendall(b'{"pid": %d}\n' % child)
        os.write(go[1], b"g")
        channel.sendall(b'{"begun": true}\n')
        for end in (number[0], *go):
            os.close(end)
        if fault == "once":
            end_by(signal.SIGKILL)


def begin(request, host, go, channel, main):
    os.setpgid(0, 0)
    os.close(go[1])
    told = os.read(go[0], 1)
    ctypes = __import__("ctypes")
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if told != b"g" or os.getppid() != host:
        os._exit(125)
    channel.detach()
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND)
    for file, place in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(file, place)
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    main()
