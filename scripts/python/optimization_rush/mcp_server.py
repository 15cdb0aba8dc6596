"""optrush mcp: a server of the Model Context Protocol for agents, on standard input and output.

Its tools are commands of optrush. A failed command is a tool's answer with `error`, so an agent reads its code and its
message. docs/guides/referee.md has the loop.
"""
import argparse
import functools
import json
import subprocess
import sys
from typing import Any, Dict, List, Optional

from .host import program

INSTRUCTIONS = """The referee keeps a change only if it is faster, correct and confirmed. If the status has a
target_loss, faster means sooner at this loss, over seeds. Plan a challenger (seconds), then try it (minutes). The
answer is faster (it is the champion now), equal, slower, undecided (try it again to continue) or broken (broken_by
names the gate). A try of a challenger that has an answer costs nothing."""


def command(words: List[str]) -> Any:
    """The JSON that a command prints; {"error": ...} if it fails."""
    done = subprocess.run([*program(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    try:
        return json.loads(done.stdout)
    except ValueError:
        text = (done.stderr or done.stdout).strip()
        return {"error": {"code": "internal", "message": text[-2000:], "exit_code": done.returncode}}


def make_server(folder: str) -> Any:
    """The server for the session in `folder`."""
    import anyio
    from mcp.server import MCPServer

    server = MCPServer("optrush", instructions=INSTRUCTIONS)

    async def run(*words: str) -> Any:
        # Another task answers the client meanwhile.
        return await anyio.to_thread.run_sync(functools.partial(command, list(words)))

    def challenge(action: str, challenger: str, *more: str) -> List[str]:
        return ["referee", folder, action, "--json", *more, "--", challenger]

    @server.tool()
    async def list_plugins() -> str:
        """The plugins: name, summary, effect on arithmetic, options."""
        return json.dumps(await run("plugins", "--json"))

    @server.tool()
    async def list_experiments() -> str:
        """The shipped experiments, their questions and the paths of their scripts."""
        return json.dumps(await run("experiments", "--json"))

    @server.tool()
    async def plan(challenger: str) -> Dict[str, Any]:
        """Plans a challenger on the champion, without measuring: conflicts, unknown names, memory. It takes seconds.

        challenger: rush.rung("name", "plugin", { option = 1 }), PLUGIN:OPTION=VALUE, flags or variables of the
        program, a script .py, a virtual environment or its lock file, or the source folder of a plugin."""
        return dict(await run(*challenge("plan", challenger)))

    @server.tool(name="try")
    async def try_challenger(challenger: str, at_most: str = "5m", effect: Optional[str] = None) -> Dict[str, Any]:
        """Measures a challenger against the champion, and keeps it if it is confirmed to be faster.

        at_most: time limit, such as 90s, 5m or 1h. effect: with a program, rounding, precision or model."""
        return dict(await run(*challenge("try", challenger, "--at-most", at_most,
                                         *(["--effect", effect] if effect else []))))

    @server.tool()
    async def status() -> Dict[str, Any]:
        """The champion, the number of answers of each kind, and the error that is spent."""
        return dict(await run("referee", folder, "status", "--json"))

    @server.tool()
    async def report() -> Dict[str, Any]:
        """All tries with their answers; also writes report.md into the folder of the session."""
        return dict(await run("referee", folder, "report", "--json"))

    return server


def main(words: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="optrush mcp", description="Serves plugins, experiments and a referee to "
                                     "agents (Model Context Protocol on standard input and output).")
    parser.add_argument("dir", metavar="DIR", help="folder of a session of optrush referee")
    asked = parser.parse_args(words)
    try:
        server = make_server(asked.dir)
    except ImportError as missing:
        print(f"optrush mcp: error[missing_requirement]: the Python package mcp is not usable: {missing}\n"
              f"  hint: {sys.executable} -m pip install 'mcp>=2'", file=sys.stderr)
        return 2
    server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
