"""A Kafka group that whole runs tell how far the lake is: a real broker, real jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.groups import commit, committed, member
from tests.sandbox import Ended, Sandbox


def told(ended: Ended) -> tuple[dict[int, int], dict[int, str]]:
    """Return what a run says that the group was told, and what it was not, by partition."""
    assert ended.code == 0, ended.err
    document: Any = ended.document["group_sync"]
    return (
        {item["partition"]: item["offset"] for item in document["committed"]},
        {item["partition"]: item["reason"] for item in document["refused"]},
    )


@pytest.mark.nightly  # by day: the rules (unit/services), the group of a real broker (contracts/test_offset_source.py)
def test_group_has_the_watermarks_of_whole_runs_and_is_never_believed(sandbox: Sandbox) -> None:
    """Forward with every run; a group that lives, or is ahead, keeps what it has, and the run says so and lands all the
    same; a group that was put back or ahead decides nothing."""
    group = f"shown-{sandbox.topic}"
    sandbox.write_pipeline(source=f'sync_group = "{group}"')

    def shown() -> dict[int, int]:
        return committed(sandbox.bootstrap, group, sandbox.topic, 2)

    sandbox.produce(40)
    assert told(sandbox.run()) == ({0: 20, 1: 20}, {})
    assert shown() == {0: 20, 1: 20}

    sandbox.produce(20, begin=40)
    with member(sandbox.bootstrap, group, sandbox.topic):
        second = sandbox.run()
    assert second.document["rows"] == 20
    took, refused = told(second)
    assert took == {}
    assert sorted(refused) == [0, 1]
    for partition, reason in refused.items():
        assert "UNKNOWN_MEMBER_ID" in reason
        assert f"group '{group}' was not told of {sandbox.topic}/{partition}: the broker refused it" in second.err
    assert shown() == {0: 20, 1: 20}

    commit(sandbox.bootstrap, group, sandbox.topic, {0: 5, 1: 33})
    third = sandbox.run()
    assert (third.document["waves"], third.document["advanced"]) == ([], [])
    assert told(third) == ({0: 30}, {1: "the group is ahead: it has committed 33, the watermark is 30"})
    assert shown() == {0: 30, 1: 33}
    sandbox.assert_exact()
