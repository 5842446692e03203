"""Which topics there are, which pipeline lands them, and how much of the load each one gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

TABLE = "raw.events"
PRECIOUS = {"retention.ms": "-1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One topic; `share` of all records goes there, in the producers' `style`."""

    name: str
    partitions: int
    share: float
    style: str
    settings: Mapping[str, str] = field(default_factory=lambda: PRECIOUS)


TOPICS = {
    topic.name: topic
    for topic in (
        Topic(name="plain", partitions=8, share=0.49, style="plain"),
        Topic(name="keyed", partitions=4, share=0.24, style="keyed"),
        Topic(name="changes", partitions=2, share=0.16, style="transactional"),
        Topic(
            name="latest",
            partitions=1,
            share=0.05,
            style="keyed",
            settings={"cleanup.policy": "compact", "segment.ms": "5000", "min.cleanable.dirty.ratio": "0.01"},
        ),
        Topic(name="expiring", partitions=2, share=0.03, style="plain"),
        Topic(name="reborn", partitions=2, share=0.03, style="plain"),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One pipeline; `person` says that a person may decide to pass unread offsets of it."""

    name: str
    topics: tuple[str, ...]
    person: bool = False

    def write(self, folder: Path) -> None:
        """Write the pipeline file."""
        names = ", ".join(f'"{topic}"' for topic in self.topics)
        (folder / f"{self.name}.toml").write_text(
            f'[pipeline]\nname = "{self.name}"\n[source]\ntopics = [{names}]\n[lake]\ntable = "{TABLE}"\n'
            '[spark]\nconnection = "spark_default"\n[sizes]\ntarget_range_bytes = "256 KiB"\nmax_wave_bytes = "8 MiB"\n'
        )


LANES = {
    lane.name: lane
    for lane in (
        Lane(name="stream", topics=("plain", "keyed", "changes", "latest")),
        Lane(name="expiring", topics=("expiring",), person=True),
        Lane(name="reborn", topics=("reborn",), person=True),
    )
}
