"""Hosts of one machine that share no network, process, file, name or time since boot: namespaces on a bridge."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_INSIDE = """
set -e
name=$1 names=$2 kept=$3 hidden=$4 where=$5; shift 5
mount --make-rprivate /
hostname "$name"
mount --bind "$names" /etc/hosts
mount -t tmpfs -o mode=755 none /mnt
n=0; for path in $kept; do mkdir /mnt/$n; mount --bind "$path" /mnt/$n; n=$((n+1)); done
for path in /tmp /var/tmp /dev/shm $hidden; do mount -t tmpfs -o mode=1777 none "$path"; done
n=0; for path in $kept; do mkdir -p "$path"; mount --bind /mnt/$n "$path"; n=$((n+1)); done
mount -t tmpfs -o mode=755 none /mnt
cd "$where"
exec "$@"
"""
"""Temporary files are each host's own; of `kept` it has the same as others, of `hidden` nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host's address, and what is put before a command that is to run there."""

    address: str
    before: tuple[str, ...] = ()


HERE = Host(address="127.0.0.1")


def can_make_hosts() -> bool:
    """Return whether this user may make hosts, and has the tools for it."""
    return os.geteuid() == 0 and all(map(shutil.which, ("ip", "unshare", "nsenter", "hostname", "mount")))


class Network:
    """A bridge of this machine, at `address`, with hosts on it; use `network()`, which removes all of it."""

    def __init__(self, folder: Path) -> None:
        self.name = f"kl{os.getpid()}"
        self._subnet = f"10.213.{os.getpid() % 250}"
        self._names = folder / "hosts"
        self._names.write_text("127.0.0.1 localhost\n")
        self._hosts: list[str] = []
        self.address = f"{self._subnet}.1"

    def open(self) -> None:
        """Make the bridge."""
        _ip("link", "add", self.name, "type", "bridge")
        _ip("addr", "add", f"{self.address}/24", "dev", self.name)
        _ip("link", "set", self.name, "up")

    def close(self) -> None:
        """Remove the hosts and the bridge."""
        for name in self._hosts:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", name)
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", self.name)

    def host(self, where: Path, *, kept: Sequence[Path], hidden: Sequence[Path] = ()) -> Host:
        """Return a new host, whose commands run in `where`."""
        number = len(self._hosts) + 2
        name, address = f"{self.name}-{number}", f"{self._subnet}.{number}"
        self._hosts.append(name)
        _ip("netns", "add", name)
        _ip("link", "add", f"{self.name}v{number}", "master", self.name, "type", "veth", "peer", "eth0", "netns", name)
        _ip("link", "set", f"{self.name}v{number}", "up")
        _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", name, "link", "set", device, "up")
        with self._names.open("a") as names:
            names.write(f"{address} {name}\n")
        boot = str(number * 100_000)
        times = ("--time", "--monotonic", boot, "--boottime", boot)
        apart = ("unshare", *times, "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
        told = (name, str(self._names), " ".join(map(str, kept)), " ".join(map(str, hidden)), str(where))
        before = ("nsenter", f"--net=/run/netns/{name}", *apart, "bash", "-c", _INSIDE, "inside", *told)
        return Host(address=address, before=before)


@contextmanager
def network(folder: Path) -> Iterator[Network]:
    """Yield a network without hosts; remove it at the end, with all that was made on it."""
    made = Network(folder)
    try:
        made.open()
        yield made
    finally:
        made.close()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
