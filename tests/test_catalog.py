"""The catalogue of metrics: well-formed, consistent, and all that the code serves."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client import exposition
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from lockscope import catalog
from lockscope.catalog import BY_NAME, CATALOG, Metric
from lockscope.sinks.multiprocess import _SHIM
from lockscope.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parent.parent
OURS = re.compile(r"\bredis_lock_[a-z0-9_]+")
# Recording rules have colons in their names, and what ends in an underscore is completed elsewhere.
NOT_OURS = re.compile(r"[a-z_]*:redis_lock_[a-z0-9_]+(:[a-z0-9_]+)?|redis_lock_[a-z0-9_]*_\b")
SUFFIXES = ("_total", "_seconds", "_ratio")
NEVER_LABELS = {"key", "owner", "token", "job_id", "resource_id", "host", "hostname", "pid", "worker", "job"}
every = pytest.mark.parametrize("metric", CATALOG, ids=lambda metric: metric.name)


@every
def test_names_are_those_of_prometheus(metric: Metric) -> None:
    """Names are valid, of our namespace, and end as their kind and unit demand."""
    assert re.fullmatch(r"redis_lock_[a-z][a-z0-9_]*[a-z0-9]", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert (metric.unit == "s") == ("_seconds" in metric.name)
    assert not re.search(r"_(count|sum|bucket|created|info)$", metric.name)
    assert "__" not in metric.name


@every
def test_help_is_one_plain_sentence(metric: Metric) -> None:
    """Help is one short sentence on one line, with a full stop."""
    assert metric.help.isprintable()
    assert metric.help[0].isupper() or metric.help[0].isdigit()
    assert metric.help.endswith(".")
    assert ". " not in metric.help
    assert 10 < len(metric.help) < 110


@every
def test_labels_are_bounded_and_never_identities(metric: Metric) -> None:
    """Label names are valid and distinct; what identifies a key, a holder or a run is never one."""
    assert len(set(metric.labels)) == len(metric.labels)
    assert all(re.fullmatch(r"[a-z][a-z_]*", label) for label in metric.labels)
    assert not NEVER_LABELS & set(metric.labels)
    assert not {"le", "instance", "quantile"} & set(metric.labels)
    assert set(metric.values) <= set(metric.labels)
    for values in metric.values.values():
        assert len(set(values)) == len(values) > 0


@every
def test_buckets_belong_to_histograms(metric: Metric) -> None:
    """Histograms have ascending finite bounds, others none; a ratio's include 1."""
    assert bool(metric.buckets) == (metric.kind in ("histogram", "gaugehistogram"))
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert all(0 < bound < float("inf") for bound in metric.buckets)
    if metric.name.endswith("_ratio"):
        assert 1.0 in metric.buckets


@every
def test_dotted_names_lose_what_exporters_add(metric: Metric) -> None:
    """The OpenTelemetry name is the Prometheus name in dots, without ``_total`` and ``_seconds``."""
    assert re.fullmatch(r"redis\.lock(\.[a-z0-9]+)+", metric.otel_name)
    stem = metric.name.removesuffix("_total").removesuffix("_seconds")
    assert metric.otel_name == stem.replace("_", ".")


def test_ranges_of_the_histograms() -> None:
    """Waits are told apart from 1 ms to 30 min, holds from 5 ms to 2 h, headroom from 0 to 1."""
    assert (catalog.ACQUIRE_WAIT.buckets[0], catalog.ACQUIRE_WAIT.buckets[-1]) == (0.001, 1800)
    assert (catalog.HOLD.buckets[0], catalog.HOLD.buckets[-1]) == (0.005, 7200)
    assert catalog.RENEW_HEADROOM.buckets[-1] == 1


def test_no_two_metrics_collide() -> None:
    """No name is there twice, no sample of another metric, nor among OpenTelemetry's instruments."""
    assert len(BY_NAME) == len(CATALOG)
    instruments = [metric.otel_name for metric in CATALOG if metric.origin != "exporter"]
    assert len(instruments) == len(set(instruments))
    samples: list[str] = []
    for metric in CATALOG:
        if metric.kind == "histogram":
            samples += [metric.name + suffix for suffix in ("_bucket", "_count", "_sum")]
        elif metric.kind == "gaugehistogram":
            samples += [metric.name + suffix for suffix in ("_bucket", "_gcount", "_gsum")]
        elif metric.kind == "counter":
            samples += [metric.name, metric.name.removesuffix("_total") + "_created"]
        else:
            samples.append(metric.name)
    assert len(samples) == len(set(samples))


def test_the_catalogue_is_what_the_module_declares() -> None:
    """Every ``Metric`` of the module is in the catalogue, in the order in which it is written."""
    declared = [value for value in vars(catalog).values() if isinstance(value, Metric)]
    assert declared == list(CATALOG)


def test_every_promised_value_is_there() -> None:
    """The bounded values that rules and dashboards are written for."""
    assert catalog.ACQUIRE.values == {"outcome": ("acquired", "contended", "timeout", "error")}
    assert catalog.RENEW.values == {"outcome": ("renewed", "lost", "error")}
    assert catalog.RELEASE.values == {"outcome": ("released", "lost", "error")}
    assert catalog.IDEMPOTENCY.values == {"outcome": ("first", "duplicate", "in_progress", "error")}
    assert catalog.OBSERVED_ENDED.values == {"how": ("released", "expired", "evicted", "flushed")}
    assert catalog.KEYS.values == {"state": ("orphaned", "no_ttl", "stalled", "overdue", "held")}


def test_both_prometheus_sinks_serve_the_same_metrics() -> None:
    """In one process or in many, the shim's families are those that carry its labels."""
    assert {family.name for family in Tally().families()} == {
        metric.name.removesuffix("_total") for metric in _SHIM
    }


class _Everything:
    """One sample of each metric of the catalogue."""

    def collect(self) -> Iterable[object]:
        for metric in CATALOG:
            labels = [metric.values.get(label, ("x",))[0] for label in metric.labels]
            if metric.kind == "counter":
                counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
                counter.add_metric(labels, 1)
                yield counter
            elif metric.kind == "gauge":
                gauge = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
                gauge.add_metric(labels, 1)
                yield gauge
            else:
                buckets = [*((str(bound), 1) for bound in metric.buckets), ("+Inf", 1)]
                kind = HistogramMetricFamily if metric.kind == "histogram" else GaugeHistogramMetricFamily
                family = kind(metric.name, metric.help, labels=metric.labels)
                family.add_metric(labels, buckets, 0.5)
                yield family


def test_promtool_has_nothing_to_say_of_any_metric() -> None:
    """Prometheus's own linter passes an exposition of the whole catalogue."""
    registry = CollectorRegistry()
    registry.register(_Everything())
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=exposition.generate_latest(registry),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (0, "", "")


def _names_in(text: str) -> set[str]:
    """Return the metrics that a text names, samples of histograms by the name of their family."""
    names = set()
    for found in OURS.findall(text):
        base = re.sub(r"_(bucket|count|sum|gcount|gsum|created)$", "", found)
        names.add(found if found in BY_NAME else base)
    return names


@pytest.mark.parametrize("package", ["instrumentation", "exporter", "dashboard"])
def test_code_names_no_metric_that_is_not_declared(package: str) -> None:
    """No string of the code names a metric, or builds on one, that the catalogue does not have."""
    unknown = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strange = {name for name in _names_in(NOT_OURS.sub("", node.value)) if not _stem(name)}
                if strange:
                    unknown[path.name] = strange
    assert unknown == {}


def _stem(name: str) -> bool:
    """Tell whether a name is a metric's, or a metric's without its kind and unit."""
    return name in BY_NAME or any(name + suffix in BY_NAME for suffix in SUFFIXES)


def test_every_promised_metric_is_there() -> None:
    """Metrics that rules, dashboards and outside checks are written for keep their names."""
    promised = {
        "redis_lock_acquire_total", "redis_lock_acquire_wait_seconds", "redis_lock_hold_seconds",
        "redis_lock_renew_total", "redis_lock_renew_headroom_ratio", "redis_lock_release_total",
        "redis_lock_ttl_used_ratio", "redis_lock_unprotected_seconds_total", "redis_lock_held",
        "redis_lock_waiters", "redis_lock_retry_total", "redis_lock_idempotency_total", "redis_lock_up",
        "redis_lock_sampler_mode", "redis_lock_keys", "redis_lock_keys_without_ttl",
        "redis_lock_oldest_age_seconds", "redis_lock_ttl_min_seconds", "redis_lock_ttl_seconds",
        "redis_lock_expected_hold_seconds", "redis_lock_observed_acquired_total",
        "redis_lock_observed_renewed_total", "redis_lock_observed_takeover_total",
        "redis_lock_observed_ended_total", "redis_lock_overlap_seconds_total", "redis_lock_overlap_total",
        "redis_lock_weak_owner_keys", "redis_lock_server_eviction_safe",
        "redis_lock_server_evicted_keys_total", "redis_lock_mirror_age_seconds",
        "redis_lock_mirror_resync_total", "redis_lock_mirror_corrections_total", "redis_lock_progress_keys",
        "redis_lock_progress_stale_seconds", "redis_lock_prefix_overflow_total",
        "redis_lock_journal_dropped_total",
    }  # fmt: skip
    assert promised <= set(BY_NAME)
