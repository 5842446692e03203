"""Kubernetes for Spark without a cluster: its API, as far as Spark's scheduler calls it, with pods that are processes.

A pod is what the entry point of Spark's image would start, with the variables of the pod and none of this process.
Names of services are in a file that Java reads in the place of a name server.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import psutil

from tests.local_http import LocalHttp
from tests.spark_cluster import QUICK

NAMESPACE, TOKEN = "lake", "canary-of-the-api"
_PATH = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/(?P<kind>[a-z]+)(?:/(?P<name>[^/]+))?")
_KINDS = {"pods": "Pod", "configmaps": "ConfigMap", "services": "Service"}
_KINDS |= {"persistentvolumeclaims": "PersistentVolumeClaim"}
_GRACE_SECONDS = 10
_FORBIDDEN = f'pods is forbidden: User "lake" cannot create resource "pods" in the namespace "{NAMESPACE}"'
_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"


class Kubernetes(LocalHttp):
    """The API of one namespace: where that is `full` no pod gets a node, where `forbidden` none is made."""

    def __init__(self, home: Path, *, full: bool = False, forbidden: bool = False) -> None:
        import pyspark

        self.full, self.forbidden = full, forbidden
        self.bodies: list[bytes] = []
        """What was sent to it, but for its own token."""
        self.pods_told: list[bytes] = []
        """The command line and the variables of each pod."""
        self.home, self._spark = home, Path(pyspark.__file__).parent
        self._names, self._token = home / "hosts", home.with_name("token-of-the-driver")
        self._names.write_text(f"127.0.0.1 localhost\n127.0.0.1 {socket.gethostname()}\n")
        self._token.write_text(TOKEN)
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._events: list[tuple[str, str, dict[str, Any]]] = []
        self._changed = threading.Condition(threading.RLock())
        self._uids, self._processes = count(1), dict[str, subprocess.Popen[bytes]]()
        self._runs: list[threading.Thread] = []
        self._is_open = True

    def __exit__(self, *_: object) -> None:
        """End every pod and every call."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        for process in self._processes.values():
            _signal(process, signal.SIGKILL)
        for run in self._runs:
            run.join()
        super().__exit__()

    def connection(self, executors: int = 1, token: str = TOKEN, **conf: str) -> str:
        """Return the Airflow connection to this cluster."""
        given = {
            "spark.kubernetes.container.image": "spark:none",
            "spark.kubernetes.authenticate.oauthToken": token,
            "spark.executor.instances": str(executors),
            "spark.executor.memory": "512m",
            "spark.driver.memory": "768m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
            **conf,
        }
        extra = {"namespace": NAMESPACE, "conf": given}
        return json.dumps({"conn_type": "spark", "host": f"k8s://{self.base}", "extra": extra})

    def drivers_connection(self, executors: int) -> str:
        """Return the connection of deploy mode cluster: the driver's pod reaches the API by a token of its own."""
        found = json.loads(self.connection(executors))
        conf, logins = found["extra"]["conf"], "spark.kubernetes.authenticate"
        for key in ("spark.driver.host", f"{logins}.oauthToken"):
            del conf[key]
        conf[f"{logins}.submission.oauthToken"] = TOKEN
        conf[f"{logins}.driver.mounted.oauthTokenFile"] = str(self._token)
        conf["spark.kubernetes.driver.master"] = self.base
        conf["spark.kubernetes.driver.memoryOverhead"] = "384m"
        found["extra"]["deploy-mode"] = "cluster"
        return json.dumps(found)

    def pods(self) -> dict[str, str]:
        """Return the phase of each pod that is there."""
        with self._changed:
            return {name: item["status"]["phase"] for (kind, name), item in self._objects.items() if kind == "pods"}

    def executors(self) -> list[psutil.Process]:
        """Return the executors of pods that run."""
        return self._running("executor")

    def drivers(self) -> list[psutil.Process]:
        """Return the drivers of pods that run."""
        return self._running("driver")

    def _running(self, role: str) -> list[psutil.Process]:
        with self._changed:
            its = [name for name in self.pods() if _fits(self._objects["pods", name], f"spark-role={role}")]
            return [psutil.Process(self._processes[name].pid) for name in its if self.pods()[name] == "Running"]

    def started(self) -> int:
        """Return how many pods have been started."""
        return len(self.pods_told)

    def busy(self) -> list[Path]:
        """Return the folders of pods that have begun a task: with their first they are given the jars of a job."""
        return sorted({jar.parent for jar in self.home.glob("pod-*/kafka-lake-*.jar")})

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return an object."""
        with self._changed:
            return self._objects.get((kind, name))

    def listing(self, kind: str, selector: str) -> dict[str, Any]:
        """Return the objects that a selector of labels chooses, and the version to watch them from."""
        with self._changed:
            items = [item for (its, _), item in self._objects.items() if its == kind and _fits(item, selector)]
            version = str(len(self._events))
        return {"kind": f"{_KINDS[kind]}List", "apiVersion": "v1", "metadata": {"resourceVersion": version}} | {
            "items": items
        }

    def watch(self, kind: str, selector: str, since: str | None, field: str = "") -> Iterator[dict[str, Any]]:
        """Yield what happens to objects since a version; without one, those that are there first.

        A selector of a field chooses one by its name.
        """
        name = field.removeprefix("metadata.name=")
        with self._changed:
            seen = len(self._events) if since is None else int(since)
            here = [] if since else self.listing(kind, selector)["items"]
        yield from ({"type": "ADDED", "object": item} for item in here if name in ("", item["metadata"]["name"]))
        while self._is_open:
            with self._changed:
                while self._is_open and len(self._events) == seen:
                    self._changed.wait()
                news = self._events[seen:]
                seen += len(news)
            for its, happened, item in news:
                if its == kind and _fits(item, selector) and name in ("", item["metadata"]["name"]):
                    yield {"type": happened, "object": item}

    def create(self, kind: str, given: dict[str, Any]) -> dict[str, Any]:
        """Make an object; a pod is started where there is room."""
        name = given["metadata"]["name"]
        given["metadata"] |= {"namespace": NAMESPACE, "uid": f"uid-{next(self._uids)}"}
        if kind == "pods":
            given["status"] = {"phase": "Pending"}
        made = self._put(kind, name, given, "ADDED")
        if kind == "services":
            with self._names.open("a") as names:
                names.write(f"127.0.0.1 {name}.{NAMESPACE}.svc\n")
        if kind == "pods" and not self.full:
            self._begin(name)
        return made

    def make_room(self) -> None:
        """Give every pod a node from now on."""
        with self._changed:
            self.full, waiting = False, list(self.pods())
        for name in waiting:
            self._begin(name)

    def _begin(self, name: str) -> None:
        self._runs.append(threading.Thread(target=self._run, args=(name,)))
        self._runs[-1].start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        return type("Bound", (_Handler,), {"cluster": self})

    def patch(self, kind: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Merge labels and annotations into an object."""
        item = json.loads(json.dumps(self._objects[kind, name]))
        for key in ("labels", "annotations"):
            item["metadata"].setdefault(key, {}).update(given.get("metadata", {}).get(key, {}))
        return self._put(kind, name, item, "MODIFIED")

    def delete(self, kind: str, name: str) -> None:
        """Remove an object, and end the process of a pod."""
        if (process := self._processes.get(name)) is not None:
            _signal(process, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_SECONDS)
            _signal(process, signal.SIGKILL)
        with self._changed:
            if (item := self._objects.pop((kind, name), None)) is not None:
                self._tell(kind, "DELETED", item)

    def _put(self, kind: str, name: str, item: dict[str, Any], happened: str) -> dict[str, Any]:
        with self._changed:
            if happened == "ADDED" or (kind, name) in self._objects:
                self._objects[kind, name] = item
                self._tell(kind, happened, item)
        return item

    def _driver(self, pod: Mapping[str, Any], given: list[str], folder: Path) -> list[str]:
        """Return what a driver's entry point starts: a submit of client mode, with the settings of the pod's volume."""
        volumes = [item["configMap"]["name"] for item in pod["spec"]["volumes"] if "configMap" in item]
        with self._changed:
            self._changed.wait_for(lambda: all(("configmaps", name) in self._objects for name in volumes))
            maps = [self._objects["configmaps", name]["data"] for name in volumes]
        settings = folder / "spark.properties"
        settings.write_text(next(data["spark.properties"] for data in maps if "spark.properties" in data))
        place = given.index("--properties-file") + 1
        given = [*given[:place], str(settings), *given[place + 1 :]]
        submit = [f"{self._spark}/bin/spark-submit", "--conf", "spark.driver.bindAddress=127.0.0.1"]
        return [*submit, "--deploy-mode", "client", *given]

    def _executor(self, name: str, given: Mapping[str, str], folder: Path) -> list[str]:
        options = [value for key, value in sorted(given.items()) if key.startswith("SPARK_JAVA_OPT_")]
        words = [shutil.which("java") or "java", *options, f"-Xms{given['SPARK_EXECUTOR_MEMORY']}"]
        words += [f"-Xmx{given['SPARK_EXECUTOR_MEMORY']}", f"-Djava.io.tmpdir={folder}"]
        words += ["-cp", f"{self._spark}/jars/*", _BACKEND, "--driver-url", given["SPARK_DRIVER_URL"]]
        words += ["--executor-id", given["SPARK_EXECUTOR_ID"], "--cores", given["SPARK_EXECUTOR_CORES"]]
        words += ["--app-id", given["SPARK_APPLICATION_ID"], "--hostname", "127.0.0.1"]
        return [*words, "--resourceProfileId", given["SPARK_RESOURCE_PROFILE_ID"], "--podName", name]

    def _tell(self, kind: str, happened: str, item: dict[str, Any]) -> None:
        item = json.loads(json.dumps(item))
        item["metadata"]["resourceVersion"] = str(len(self._events) + 1)
        self._events.append((kind, happened, item))
        self._changed.notify_all()

    def _phase(self, name: str, phase: str, state: Mapping[str, Any]) -> None:
        with self._changed:
            item = json.loads(json.dumps(self._objects.get(("pods", name))))
            if item is not None:
                container = item["spec"]["containers"][0]["name"]
                ready = {"type": "Ready", "status": str(phase == "Running")}
                item["status"] = {"phase": phase, "podIP": "127.0.0.1", "conditions": [ready]}
                item["status"]["containerStatuses"] = [{"name": container, "ready": True, "state": state}]
                self._put("pods", name, item, "MODIFIED")

    def _run(self, name: str) -> None:
        """Start what the image's entry point starts, and follow it to its end."""
        if (pod := self.find("pods", name)) is None:
            return
        (container,) = pod["spec"]["containers"]
        folder = self.home / f"pod-{name}"
        folder.mkdir()
        own = {f"SPARK_{role}": "127.0.0.1" for role in ("EXECUTOR_POD_IP", "DRIVER_BIND_ADDRESS", "DRIVER_POD_IP")}
        given = {item["name"]: item["value"] for item in container["env"] if "value" in item}
        env = {"PATH": os.environ["PATH"], "SPARK_HOME": str(self._spark), "SPARK_LOCAL_DIRS": str(folder)}
        env |= {"PYSPARK_PYTHON": sys.executable, "JAVA_TOOL_OPTIONS": f"-Djdk.net.hosts.file={self._names}"}
        env |= given | own
        if container.get("args", [""])[0] == "driver":
            words = self._driver(pod, container["args"][1:], folder)
        else:
            words = self._executor(name, given, folder)
        self.pods_told.append("\n".join([*words, *(f"{key}={value}" for key, value in env.items())]).encode())
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                words, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        with self._changed:
            self._processes[name] = process
            is_wanted = self._is_open and ("pods", name) in self._objects
        if not is_wanted:
            _signal(process, signal.SIGKILL)
        self._phase(name, "Running", {"running": {}})
        code = process.wait()
        state = {"exitCode": code if code >= 0 else 128 - code, "reason": "Error" if code else "Completed"}
        self._phase(name, "Failed" if code else "Succeeded", {"terminated": state})


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _fits(item: Mapping[str, Any], selector: str) -> bool:
    """Return whether an object's labels are `a=b,c!=d`."""
    labels = item["metadata"].get("labels") or {}
    for part in filter(None, selector.split(",")):
        name, value = re.split("!?=+", part)
        if (labels.get(name) == value) is ("!=" in part):
            return False
    return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: ClassVar[Kubernetes]

    def _called(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.cluster.bodies.append(f"{self.command} {self.path}\n".encode() + body)
        address = urlsplit(self.path)
        asked = {key: values[0] for key, values in parse_qs(address.query).items()}
        found = _PATH.fullmatch(address.path)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._refuse(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        elif found is None or found["kind"] not in _KINDS or found["namespace"] != NAMESPACE:
            self._refuse(HTTPStatus.NOT_FOUND, "the server could not find the requested resource")
        elif "watch" in asked:
            self._watch(found["kind"], asked)
        elif self.command == "POST" or (  # an apply makes an object too
            "fieldManager" in asked and self.cluster.find(found["kind"], found["name"]) is None
        ):
            self._create(found["kind"], json.loads(body))
        elif found["name"] is None:
            self._all(found["kind"], asked.get("labelSelector", ""))
        else:
            self._one(found["kind"], found["name"], json.loads(body or b"{}"))

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _called  # noqa: N815 - the library's names

    def _create(self, kind: str, given: dict[str, Any]) -> None:
        if kind == "pods" and self.cluster.forbidden:
            self._refuse(HTTPStatus.FORBIDDEN, _FORBIDDEN)
        else:
            self._send(self.cluster.create(kind, given), HTTPStatus.CREATED)

    def _all(self, kind: str, selector: str) -> None:
        chosen = self.cluster.listing(kind, selector)
        if self.command == "DELETE":
            for item in chosen["items"]:
                self.cluster.delete(kind, item["metadata"]["name"])
        self._send(chosen)

    def _one(self, kind: str, name: str, given: dict[str, Any]) -> None:
        if (item := self.cluster.find(kind, name)) is None:
            self._refuse(HTTPStatus.NOT_FOUND, f'{kind} "{name}" not found')
            return
        if self.command == "DELETE":
            self.cluster.delete(kind, name)
        elif self.command != "GET":
            item = self.cluster.patch(kind, name, given)
        self._send(item)

    def _watch(self, kind: str, asked: Mapping[str, str]) -> None:
        if self.headers.get("Upgrade"):
            # Spark's client tries a WebSocket first, and takes this for an answer.
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "no WebSocket here")
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            for event in self.cluster.watch(
                kind, asked.get("labelSelector", ""), asked.get("resourceVersion"), asked.get("fieldSelector", "")
            ):
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
        self.close_connection = True

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        reason = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status}
        self._send({**reason, "reason": status.phrase.replace(" ", "")}, status)

    def _send(self, document: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: every call is in `bodies`."""
