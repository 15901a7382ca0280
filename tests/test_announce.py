"""The exporter's log says each change of a server once."""

from __future__ import annotations

import logging
from dataclasses import replace

from commands import Exporter
from lockscope_exporter.announce import news
from lockscope_exporter.state import NodeStatus
from servers import RedisServer, free_port, wait_until

UP = NodeStatus(target="default", node="h:1", up=True, mode="tracking", age_seconds=0.1)
DOWN = replace(UP, up=False, error="connection refused")


def said(before: NodeStatus | None, now: NodeStatus | None) -> list[tuple[str, str]]:
    """Return level and text of the lines between two looks at one node."""
    known = {(before.target, before.node): before} if before else {}
    return [(logging.getLevelName(line.level), line.text) for line in news(known, [now] if now else [])]


def test_a_node_that_is_as_it_was_says_nothing():
    """No change, no line; a growing age is no change."""
    assert said(UP, replace(UP, age_seconds=5.0)) == []
    assert said(DOWN, DOWN) == []


def test_going_and_coming_back_is_said_once():
    """Down says why, up says which feed; a new reason is said too."""
    assert said(None, UP) == [("INFO", "default h:1: up, feed tracking")]
    assert said(UP, DOWN) == [("WARNING", "default h:1: down, connection refused")]
    assert said(DOWN, replace(DOWN, error="no answer")) == [("WARNING", "default h:1: down, no answer")]
    assert said(DOWN, UP) == [("INFO", "default h:1: up, feed tracking")]


def test_feed_membership_and_warnings():
    """A worse feed, a node that leaves and a new warning are said."""
    assert said(UP, replace(UP, mode="scan")) == [("WARNING", "default h:1: feed scan instead of tracking")]
    assert said(UP, None) == [("INFO", "default h:1: no longer a member")]
    warned = replace(UP, warnings=("pattern *:lock\x1b cannot be tracked",))
    assert said(UP, warned) == [("WARNING", "default h:1: pattern *:lock\\x1b cannot be tracked")]
    assert said(warned, warned) == []


def test_a_running_exporter_logs_that_redis_went_and_came_back():
    """Operators read one line for the outage, with the reason, and one for its end."""
    port = free_port()
    with Exporter(f"redis://127.0.0.1:{port}/0") as exporter:
        log = exporter.process.output
        wait_until(lambda: f"default 127.0.0.1:{port}: down, connection refused" in log())
        server = RedisServer(port=port)
        try:
            wait_until(lambda: f"default 127.0.0.1:{port}: up, feed" in log())
        finally:
            server.close()
        wait_until(lambda: log().count(": down, ") >= 2)
        assert "Traceback" not in log()
