"""A real Chromium, driven by its own protocol: pages as a person has them."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from airflow_kafka_lake.local.processes import wait_until

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 30.0
"""How many seconds an answer may take; only a defect takes so long."""

ARGUMENTS = (
    "--headless=new",
    # As root, as in many a container, Chromium runs only without its sandbox; it sees nothing but these pages.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)


class Page:
    """One page of a browser."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Network", "Log", "Performance"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Give a command of the protocol; what else the browser says meanwhile is kept in `events`."""
        said = self._answer(method, parameters)
        assert "error" not in said, (method, said["error"])
        return said["result"]

    def _answer(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            said = json.loads(self._connection.recv(timeout=PATIENCE))
            if said.get("id") == number:
                return said
            self.events.append(said)

    def show(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the window and the person's choice of colours."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        value = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def go(self, url: str) -> None:
        """Open an address, and wait until it is loaded; what was complained of before is forgotten."""
        self.call("Page.navigate", url=url)
        self.events.clear()
        address = json.dumps(url.split("#", maxsplit=1)[0])
        self.until(f"location.href.startsWith({address}) && document.readyState === 'complete'")

    def js(self, expression: str) -> Any:
        """Return the value of an expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str, seconds: float = PATIENCE) -> Any:
        """Wait until an expression holds, and return its value."""

        found: list[Any] = []

        def holds() -> bool:
            # While a page is replaced by another, there is none to ask, and the browser says so.
            answer = self._answer("Runtime.evaluate", {"expression": condition, "returnByValue": True})
            found.append(answer.get("result", {}).get("result", {}).get("value"))
            return bool(found[-1])

        wait_until(holds, timeout=seconds, failed=lambda why: AssertionError(f"{condition}: {why}; last {found[-1]!r}"))
        return found[-1]

    def text(self, selector: str) -> str:
        """Return the text of the first element that a selector finds, as it is seen."""
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def click(self, selector: str) -> None:
        """Click an element as a pointer does."""
        place = self.js(
            f"""(() => {{
                const found = document.querySelector({json.dumps(selector)});
                found.scrollIntoView({{block: "center"}});
                const box = found.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def complaints(self) -> list[str]:
        """Return what the browser has complained of: errors of scripts, and what a policy has kept from loading."""
        self.js("0")
        exceptions = [e["params"]["exceptionDetails"] for e in self.events if e["method"] == "Runtime.exceptionThrown"]
        logged = [e["params"]["entry"] for e in self.events if e["method"] == "Log.entryAdded"]
        return [str(item.get("text")) for item in exceptions] + [
            entry["text"] for entry in logged if entry["level"] == "error"
        ]

    def metrics(self) -> dict[str, float]:
        """Return the browser's own measures: nodes, seconds of layout and scripts, bytes of memory."""
        return {item["name"]: item["value"] for item in self.call("Performance.getMetrics")["metrics"]}

    def screenshot(self, file: Path, *, whole: bool = False, clip: tuple[int, int] | None = None) -> None:
        """Write what is seen, or the whole page, as a WebP or PNG, as the name ends; `clip` is the width and height of
        what is kept of it."""
        kept = {"clip": {"x": 0, "y": 0, "width": clip[0], "height": clip[1], "scale": 1}} if clip else {}
        shot = self.call("Page.captureScreenshot", format=file.suffix[1:], captureBeyondViewport=whole, **kept)
        file.write_bytes(base64.b64decode(shot["data"]))


def program() -> str | None:
    """Return where the browser is; None on a machine without one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Start a browser with a profile of its own; a machine without one skips the test."""
    found = program()
    if found is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    process = subprocess.Popen(
        [found, *ARGUMENTS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        port_file = folder / "DevToolsActivePort"
        wait_until(
            lambda: port_file.is_file() and "/" in port_file.read_text(), timeout=PATIENCE, failed=AssertionError
        )
        lines = port_file.read_text().split()
        with connect(f"ws://127.0.0.1:{lines[0]}{lines[1]}", max_size=None) as whole:
            whole.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
            targets = json.loads(whole.recv(timeout=PATIENCE))["result"]["targetInfos"]
        target = next(item["targetId"] for item in targets if item["type"] == "page")
        with connect(
            f"ws://127.0.0.1:{lines[0]}/devtools/page/{target}", max_size=None, ping_interval=None
        ) as connection:
            yield Page(connection)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE)
