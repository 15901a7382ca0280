"""Job-progress keys: found, read now and then, and stale when their worker falls silent."""

from __future__ import annotations

import json
import time

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from lockscope_exporter.collector import LockCollector
from lockscope_exporter.sampling import open_source
from lockscope_exporter.sampling import progress as sampling_progress
from lockscope_exporter.targets import SamplingOptions, Target
from mirroring import mirror
from servers import wait_until


def progress(source, prefix="job:*:progress"):
    """Return the counts of a prefix, ``None`` before it is known."""
    return next((one for one in source.progress() if one.prefix == prefix), None)


def say(client, number, status="running", ago=0.0, **more) -> None:
    """Write a progress report as a JSON string."""
    client.set(
        f"job:{number}:progress", json.dumps({"status": status, "updated_at": time.time() - ago, **more})
    )


def test_states_are_counted(server, client):
    """Running, stale, failed and completed jobs are counted; strings and hashes alike."""
    say(client, 1)
    say(client, 2, ago=100)
    say(client, 3, "failed")
    client.hset("job:4:progress", mapping={"status": "completed", "last_heartbeat": time.time()})
    client.set("job:5:progress", "no report")
    client.rpush("job:6:progress", "x")
    client.set("job:7:progress", "x" * 200_000)
    with mirror(server.url, progress=("job:*:progress",)) as source:
        found = wait_until(lambda: progress(source))
        assert found.keys == {"running": 1, "stale": 1, "failed": 1, "completed": 1}
        assert 99 < found.silent_seconds < 130
        assert source.locks() == []


def test_a_job_falls_silent(server, client):
    """A job whose heartbeat stops becomes stale by itself, and a family without keys drops to 0."""
    say(client, 1)
    with mirror(server.url, progress=("job:*:progress",), progress_stale_after=1.0) as source:
        assert wait_until(lambda: progress(source)).keys["running"] == 1
        wait_until(lambda: progress(source).keys["stale"] == 1)
        say(client, 1, "done")
        wait_until(lambda: progress(source).keys["completed"] == 1, 15)
        client.delete("job:1:progress")
        wait_until(lambda: sum(progress(source).keys.values()) == 0, 15)
        assert progress(source).silent_seconds == 0


def test_new_keys_are_found(server, client):
    """Keys that appear later are found without a restart."""
    with mirror(server.url, progress=("job:*:progress",), progress_stale_after=2.0) as source:
        assert source.progress() == []
        say(client, 1)
        wait_until(lambda: progress(source), 15)


def test_field_names_are_configurable(server, client):
    """Payloads that call their fields something else are read by those names."""
    client.set("job:1:progress", json.dumps({"phase": "running", "seen": time.time() - 90}))
    options = {"progress": ("job:*:progress",), "progress_fields": "status=phase,heartbeat=seen"}
    with mirror(server.url, **options) as source:
        assert wait_until(lambda: progress(source)).keys["stale"] == 1


def test_a_wrong_setting_is_refused():
    """Field names that cannot be read are refused when the source is opened."""
    with pytest.raises(ValueError, match="NAME=FIELD"):
        open_source([Target("redis://x")], SamplingOptions(progress=("a",), progress_fields="nonsense"))


def test_exposed_as_metrics(server, client):
    """The counts reach the exposition, every state from the start."""
    say(client, 1, ago=75)
    registry = CollectorRegistry()
    with mirror(server.url, progress=("job:*:progress",)) as source:
        wait_until(lambda: progress(source))
        registry.register(LockCollector(source))
        text = generate_latest(registry).decode()
    labels = 'db="0",prefix="job:*:progress",state="{}",target="default"'
    assert f"redis_lock_progress_keys{{{labels.format('stale')}}} 1.0" in text
    assert f"redis_lock_progress_keys{{{labels.format('running')}}} 0.0" in text
    assert 'redis_lock_progress_stale_seconds{db="0",prefix="job:*:progress",target="default"} 7' in text


def test_a_lost_server_is_not_counted(own_server):
    """While the server is down nothing is claimed about its jobs."""
    say(own_server.client(), 1)
    with mirror(own_server.url, progress=("job:*:progress",)) as source:
        wait_until(lambda: progress(source))
        own_server.stop()
        wait_until(lambda: not source.nodes()[0].up)
        assert source.progress() == []


def test_permissions_that_change(own_server, monkeypatch):
    """A report that may not be read any more is not stale, and counts again once it may."""
    client = own_server.client()
    say(client, 1)
    rule = "reset on >secret %R~job:* %R~lock:* &* +@read +@connection +@scripting +@pubsub +info +time"
    client.execute_command("ACL", "SETUSER", "lockscope", *rule.split())
    url = f"redis://lockscope:secret@127.0.0.1:{own_server.port}/0"
    monkeypatch.setattr(sampling_progress, "RETRY", 1.0)
    with mirror(url, progress=("job:*:progress",), progress_stale_after=0.5) as source:
        wait_until(lambda: progress(source).keys["stale"] == 1)
        client.execute_command("ACL", "SETUSER", "lockscope", "resetkeys")
        wait_until(lambda: sum(progress(source).keys.values()) == 0)
        client.execute_command("ACL", "SETUSER", "lockscope", "%R~job:*")
        wait_until(lambda: progress(source).keys["stale"] == 1, 20)
