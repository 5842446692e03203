"""What a fault is: it strikes some times while its round lasts, and heals what it broke."""

from __future__ import annotations

import random
import threading
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from tests.soak.acknowledged import Acknowledged
    from tests.soak.place import Place
    from tests.soak.producers import Producers
    from tests.soak.workers import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What faults can reach."""

    place: Place
    workers: tuple[Worker, ...]
    producers: Producers
    acknowledged: Acknowledged


class Fault:
    """One kind of fault. `begin` comes first, `strike` whenever `every` seconds have passed, `heal` always last.

    `strike` answers whether there was something to hit.
    """

    name: ClassVar[str] = ""
    words: ClassVar[str] = ""
    every: ClassVar[float] = 20.0
    timeout: ClassVar[float] = 75.0
    """How long a fault that found nothing to hit yet may look for it, once it has begun, in seconds."""

    def __init__(self, scene: Scene, choose: random.Random) -> None:
        self.scene = scene
        self.choose = choose
        self.struck = 0
        self.problems: list[str] = []
        self._round_over = threading.Event()
        self._looks_until = 0.0

    def run(self, over: threading.Event) -> None:
        """Strike until `over`, then heal; what goes wrong in the fault itself is a problem of the soak."""
        self._round_over = over
        try:
            self.begin()
            self._looks_until = time.monotonic() + self.timeout
            wait = self.choose.uniform(0.5, self.every)
            while not self.over(after=wait):
                if self.strike():
                    self.struck += 1
                    self.scene.place.journal("fault", fault=self.name)
                    wait = self.choose.uniform(0.5, 1.5) * self.every
                else:
                    wait = 0.5
        except Exception as error:  # noqa: BLE001  # must not stop the round; it is reported
            self._failed(error)
        finally:
            try:
                self.heal()
            except Exception as error:  # noqa: BLE001  # as above
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.problems.append(f"fault {self.name}: {type(error).__name__}: {error}")
        self.scene.place.journal("fault failed", fault=self.name, error=traceback.format_exc())

    def over(self, *, after: float) -> bool:
        """Wait, then say whether to stop: the round is over, and it has struck or found nothing to hit for long."""
        if not self._round_over.wait(after):
            return False
        if self.struck or time.monotonic() > self._looks_until:
            return True
        time.sleep(0.5)
        return False

    def pause(self, seconds: float) -> None:
        """Wait a little, not much beyond the end of the round."""
        self._round_over.wait(seconds)

    def begin(self) -> None:
        """Break what stays broken for the whole round."""

    def strike(self) -> bool:
        """Hit once, if there is something to hit."""
        return False

    def heal(self) -> None:
        """Make good whatever would not heal by itself."""
