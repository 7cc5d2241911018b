"""A headless Chromium, controlled by its DevTools protocol over two pipes; needs no driver and no library."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowDown": (40, ""), "ArrowUp": (38, ""), "ArrowLeft": (37, ""),
        "ArrowRight": (39, ""), "Home": (36, ""), "End": (35, ""), "PageDown": (34, ""), "PageUp": (33, "")}


def find():
    """The path of Chromium, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One page. `complaints` collects its errors (exceptions, refused loads)."""

    def __init__(self, width=1280, height=900, seconds=60):
        self.deadline = time.monotonic() + seconds
        self.home = tempfile.mkdtemp(prefix="dlflow-browser.")
        to_browser, self.to_browser = os.pipe()
        self.from_browser, from_browser = os.pipe()
        self.log = open(os.path.join(self.home, "log"), "w+")
        arguments = [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--force-color-profile=srgb", "--hide-scrollbars", "--disable-background-networking", "--remote-debugging-pipe",
                     f"--user-data-dir={self.home}/profile", f"--window-size={width},{height}", "about:blank"]

        def pipes():  # Chromium reads from descriptor 3 and writes to 4
            reads, writes = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser))
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self.process = subprocess.Popen(arguments, preexec_fn=pipes, close_fds=False, stdout=self.log, stderr=self.log, start_new_session=True,
                                        env={**os.environ, "HOME": self.home})
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.session, self.events, self.complaints = 0, b"", None, [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to_browser, data):]
        while (answer := self.receive()).get("id") != self.number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def receive(self):
        while b"\0" not in self.buffer:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([self.from_browser], [], [], left)[0]:
                raise TimeoutError(f"the browser does not answer; {self.said()}")
            data = os.read(self.from_browser, 1 << 20)
            if not data:
                raise RuntimeError(f"the browser has ended; {self.said()}")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.note(message["method"], message["params"])
        return message

    def said(self):
        self.log.seek(0)
        return self.log.read()[-2000:]

    def note(self, method, parameters):
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        if method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(parameters["entry"]["text"])
        if method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(("file:", "data:", "about:", "blob:")):
            self.complaints.append("asks for " + parameters["request"]["url"])

    def open(self, path):
        """Opens a page. Returns the seconds until it was loaded and drawn."""
        self.events.clear()
        begin = time.monotonic()
        self.call("Page.navigate", url=f"file://{path}")
        while "Page.loadEventFired" not in self.events:
            self.receive()
        self.run("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        return time.monotonic() - begin

    def run(self, script):
        """The value of an expression in the page; waits for a promise."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def press(self, *keys):
        for key in keys:
            code, text = KEYS.get(key, (ord(key.upper()[0]), key))
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, text=text)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def place(self, selector):
        """The middle of an element, after scrolling it into view."""
        return self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}}); "
                        "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2, r.width, r.height]; })()")

    def click(self, selector):
        self.mouse(*self.place(selector)[:2])

    def mouse(self, x, y, to=None):
        """Clicks; or, with `to`, drags to that point."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
        if to:
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=to[0], y=to[1], button="left", buttons=1)
            x, y = to
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)

    def media(self, kind="screen", dark=False):
        self.call("Emulation.setEmulatedMedia", media=kind, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self, file, selector=None):
        clip = {}
        if selector:
            self.place(selector)
            x, y, width, height = self.run(f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); "
                                           "return [r.x + scrollX, r.y + scrollY, r.width, r.height]; })()")
            clip = {"clip": {"x": x, "y": y, "width": width, "height": height, "scale": 1}, "captureBeyondViewport": True}
        with open(file, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", **clip)["data"]))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
