"""Executors, drivers, Spark's workers and master, catalog and store: they die, and come back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

import psutil

from tests.proxy import Proxy
from tests.soak.faults.network import Cut
from tests.soak.faults.strike import Fault
from tests.soak.realistic import WORKERS, RealisticPlace


class RealisticFault(Fault):
    """Hits what only a realistic place has."""

    @property
    def place(self) -> RealisticPlace:
        """The place that is hit."""
        assert isinstance(self.scene.place, RealisticPlace)
        return self.scene.place

    def kill_one(self, running: Sequence[psutil.Process], *, within: float) -> bool:
        """Kill one of some processes within some seconds; return whether there was any."""
        if not running:
            return False
        self.pause(self.choose.uniform(0, within))
        with contextlib.suppress(psutil.NoSuchProcess):
            self.choose.choice(running).kill()
        return True


class ExecutorKill(RealisticFault):
    """An executor dies; the master gives its application another one."""

    name = "executor-kill"
    words = "SIGKILL to a Spark executor"
    every = 10.0

    def strike(self) -> bool:
        """Kill one that runs, at any moment of its life."""
        return self.kill_one(self.place.cluster.executors(), within=3)


class ClusterDriverKill(RealisticFault):
    """A driver on the cluster dies; its command ends, and the next one begins the wave anew."""

    name = "cluster-driver-kill"
    words = "SIGKILL to a Spark driver on the cluster"

    def strike(self) -> bool:
        """Kill one that runs, at any moment of its life."""
        return self.kill_one(self.place.cluster.drivers(), within=8)


class SparkWorkerKill(RealisticFault):
    """A worker of the cluster dies with its executors and drivers, and comes back."""

    name = "spark-worker-kill"
    words = "SIGKILL to a worker of the Spark cluster, its executors and drivers; it comes back"

    def strike(self) -> bool:
        """Kill one, wait a little, start it."""
        number = self.choose.randrange(WORKERS)
        with self.place.cluster_turn:
            self.place.cluster.kill(f"worker-{number}")
            try:
                self.pause(self.choose.uniform(0, 10))
            finally:
                self.place.cluster.start_worker(number)
                self.place.cluster.wait_for_workers(WORKERS)
        return True


class SparkMasterKill(RealisticFault):
    """The cluster's master dies and comes back with its memory."""

    name = "spark-master-kill"
    words = "SIGKILL to the master of the Spark cluster, which comes back"

    def strike(self) -> bool:
        """Kill it, wait a little, start it."""
        with self.place.cluster_turn:
            self.place.cluster.kill("master")
            try:
                self.pause(self.choose.uniform(0, 5))
            finally:
                self.place.cluster.start_master()
                self.place.cluster.wait_for_workers(WORKERS)
        return True


class LakeKill(RealisticFault):
    """Catalog and store die and come back."""

    name = "lake-kill"
    words = "SIGKILL to the REST catalog and its object store, which come back"

    def strike(self) -> bool:
        """Kill them, wait a little, start them."""
        self.place.lake.kill()
        try:
            time.sleep(self.choose.uniform(0, 3))
        finally:
            self.place.lake.start()
        return True


class StoreCut(RealisticFault, Cut):
    """See `Cut`."""

    name = "store-cut"
    words = "connections to the object store break; none gets through for up to 6 s"

    @property
    def network(self) -> Proxy:
        """The network before the store."""
        return self.place.store_network


REALISTIC_FAULTS = (ExecutorKill, ClusterDriverKill, SparkWorkerKill, SparkMasterKill, LakeKill, StoreCut)
