"""How the property tests run: enough examples, and no deadline on shared machines."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("house", max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
