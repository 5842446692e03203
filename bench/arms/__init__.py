"""Ways to bring topics into a committed table."""

from bench.arms.arm import Arm, Start
from bench.arms.entered import ARMS
from bench.arms.place import Place

__all__ = ["ARMS", "Arm", "Place", "Start"]
