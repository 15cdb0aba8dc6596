"""A headless Chromium over the DevTools protocol: a pipe for each direction. A JSON message ends with a zero byte."""
import json
import os
import select
import shutil
import subprocess
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
LIMIT_S = 60
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
           "--force-color-profile=srgb", "--remote-debugging-pipe")


def program():
    """The path of the first browser that is installed; None: there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """A tab. `events` has every event of the protocol since the start, as (method, parameters)."""

    def __init__(self, profile):
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def as_3_and_4():
            # Copies first, because one of the two may already be number 3 or 4.
            ends = os.dup(to_browser), os.dup(from_browser)
            for end, number in zip(ends, (3, 4)):
                os.dup2(end, number)

        command = [program(), *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        self._browser = subprocess.Popen(command, preexec_fn=as_3_and_4, close_fds=False, stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.events, self._rest, self._number, self._session = [], b"", 0, None
        page = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._browser.terminate()
        self._browser.wait()
        os.close(self._in)
        os.close(self._out)

    def _message(self, until):
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self._in, 1 << 20)
            if not more:
                raise EOFError("the browser ended")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + LIMIT_S
        while True:
            answer = self._message(until)
            if "method" in answer:
                self.events.append((answer["method"], answer["params"]))
            elif answer["id"] == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def value(self, expression):
        """The value of a JavaScript expression; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (expression, result)
        return result["result"].get("value")

    def open(self, file, width, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=f"file://{file}")
        wait = "new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))"
        self.value(wait)

    def move_to(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
