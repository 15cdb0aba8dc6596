"""A Python that has imported Inductor and lowered two units with it.

Tests start the helper of the plugin compile and peers many times. Each start imports torch in three seconds and
transformers in three more; Inductor's first lowering takes two.

  warm_python.py serve SOCKET               imports, prints "ready", and serves in the background
  warm_python.py stop SOCKET
  warm_python.py run SOCKET PYTHON WORDS    as `PYTHON WORDS`: a script or torchrun runs in a fork of the server, with
                                            the caller's folder, environment and output. The options -u and -B may
                                            come first. Without a server, with LD_PRELOAD, and for all other words,
                                            PYTHON runs them

Torchrun starts its ranks with PYTHON_EXEC, which may be the third form.
"""
import contextlib
import json
import os
import pathlib
import resource
import runpy
import select
import signal
import socket
import sys
import traceback

HELPER = pathlib.Path(__file__).resolve().parents[2] / "plugins/optimizations/compile"
LONGEST_IDLE = 1800
TORCHRUN = ("-m", "torch.distributed.run")


def load():
    """Imports and lowers the parts that all scripts share."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy reads it at its import
    sys.path[0] = str(HELPER)
    sys.path.append(str(pathlib.Path(__file__).parent))
    import inductor
    import torch._inductor.codegen.cpp_wrapper_cpu
    import torch._inductor.compile_fx
    import torch._inductor.fx_passes.joint_graph
    import torch._inductor.fx_passes.post_grad  # noqa: F401
    import warm_units

    inductor.try_instruction_sets_here()
    warm_units.lower()
    with contextlib.suppress(ImportError):
        import load_peers  # noqa: F401
    # The script of a request imports its own version of these.
    for name in ("inductor", "cuda_tools", "wrappers"):
        del sys.modules[name]


def run_script(request, streams):
    """Runs the script in the fork; does not return."""
    code = 1
    try:
        for stream, number in zip(streams, range(3)):
            os.dup2(stream, number)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.executable = os.environ.get("PYTHON_EXEC", sys.executable)  # a script may start itself as torchrun does
        sys.dont_write_bytecode = not request["bytecode"]
        sys.argv = request["words"]
        if sys.argv[0] == "-m":
            sys.path[0] = ""
            del sys.argv[0]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
            runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def watch(connection, request, streams):
    """Serves one request in a new process. If the caller ends, the script is killed."""
    child = os.fork()
    if child == 0:
        connection.close()
        os.setpgid(0, 0)
        run_script(request, streams)
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([connection, ended], [], [])
    if ended not in ready:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def take_ended():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def listen(listener):
    scripts = 0
    listener.settimeout(LONGEST_IDLE)  # killed tests do not stop the server
    while True:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            return
        take_ended()
        with connection:
            connection.setblocking(True)
            text, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
            if text == b"stop":
                used = resource.getrusage(resource.RUSAGE_CHILDREN)
                connection.sendall(f"{scripts} scripts took {used.ru_utime + used.ru_stime:.0f} s of CPU".encode())
                return
            scripts += 1
            if os.fork() == 0:
                listener.close()
                watch(connection, json.loads(text), streams)
            for stream in streams:
                os.close(stream)


@contextlib.contextmanager
def short(path):
    """A name of the socket that is within the limit of the length of a name."""
    folder = os.open(os.path.dirname(path), os.O_PATH)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def serve(path):
    stop(path)
    load()
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads} threads: a fork has only one of them"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with short(path) as name:
        listener.bind(name)
    listener.listen(16)
    print("ready", flush=True)
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    listen(listener)
    os.unlink(path)


def connected(path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with short(path) as name:
            connection.connect(name)
    except OSError:
        return None
    return connection


def forked(words):
    """True if the server can run these words."""
    is_known = words[:2] == TORCHRUN or bool(words) and not words[0].startswith("-")
    return is_known and not os.environ.get("LD_PRELOAD")


def run(path, python, *given):
    words = given[1:] if given[:1] in (("-u",), ("-B",)) else given  # a fork writes its output at its end
    server = connected(path) if forked(words) else None
    if server is None:
        os.execv(python, [python, *given])
    request = json.dumps({"words": words, "folder": os.getcwd(), "environment": dict(os.environ),
                          "bytecode": given[:1] != ("-B",)}).encode()
    socket.send_fds(server, [request], [0, 1, 2])
    answer = server.recv(100)
    code = int(answer) if answer else 1
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


def stop(path):
    if server := connected(path):
        socket.send_fds(server, [b"stop"], [0, 1, 2])
        print(server.recv(1000).decode())


if __name__ == "__main__":
    {"serve": serve, "stop": stop, "run": run}[sys.argv[1]](*sys.argv[2:])
