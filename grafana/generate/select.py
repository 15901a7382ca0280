"""PromQL pieces that every panel is made of. Each selector carries the dashboard's variables as matchers."""

from __future__ import annotations

from lockscope.catalog import BY_NAME

# What an exporter's series is identified by, apart from which of several exporters says it.
FAMILY = "target, db, prefix"
_PER_NODE = ("target", "node")

# Matchers that several boards use.
ACQUIRED = 'outcome="acquired"'
LOST = 'outcome="lost"'
DUPLICATE = 'outcome="duplicate"'
FAILED = 'outcome=~"timeout|error"'
REFUSED = 'outcome=~"contended|timeout"'
WAITED = 'outcome=~"acquired|timeout"'
VALID = 'outcome!="contended"'
NEED_A_LOOK = 'state=~"orphaned|no_ttl|stalled|overdue"'


def series(metric: str, matchers: str = "", suffix: str = "") -> str:
    """Return a selector of a catalogued metric with job, instance and, where it has them, prefix, job_type.

    Args:
        metric: name in the catalogue.
        matchers: further matchers, such as ``outcome="lost"``.
        suffix: ``_bucket``, ``_sum`` or ``_count`` of a histogram.

    Raises:
        KeyError: no such metric, or the matchers name a label that it does not have.
    """
    labels = BY_NAME[metric].labels
    named = {part.strip().split("=")[0].rstrip("!") for part in matchers.split(",")} if matchers else set()
    unknown = named - set(labels) - {"le"}
    if unknown:
        raise KeyError(f"{metric} has no label {sorted(unknown)}")
    parts = ['job=~"$job"', 'instance=~"$instance"']
    parts += [f'{label}=~"${label}"' for label in ("prefix", "job_type") if label in labels]
    return f"{metric}{suffix}{{{', '.join([*parts, *([matchers] if matchers else [])])}}}"


def rate(metric: str, matchers: str = "", suffix: str = "") -> str:
    """Return the rate of a counter over Grafana's rate interval."""
    return f"rate({series(metric, matchers, suffix)}[$__rate_interval])"


def grown(metric: str, matchers: str = "", suffix: str = "") -> str:
    """Return the growth of a counter over the time range shown."""
    return f"increase({series(metric, matchers, suffix)}[$__range])"


def exported(metric: str, matchers: str = "", extra: str = "") -> str:
    """Return an exporter's series once, also where two exporters watch one Redis.

    Args:
        metric: name in the catalogue.
        matchers: further matchers.
        extra: labels to keep beside those of the family or node, such as ``state``.
    """
    labels = ", ".join(_PER_NODE) if "node" in BY_NAME[metric].labels else FAMILY
    return f"max by ({labels}{', ' + extra if extra else ''}) ({series(metric, matchers)})"


def quantile(share: float, metric: str, matchers: str = "", by: str = "") -> str:
    """Return a quantile of a histogram over Grafana's rate interval."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share:g}, sum by ({labels}) ({rate(metric, matchers, '_bucket')}))"


def recorded(name: str, matchers: str = "") -> str:
    """Return a selector of a series recorded per instance and prefix."""
    more = f", {matchers}" if matchers else ""
    return f'{name}{{job=~"$job", instance=~"$instance", prefix=~"$prefix"{more}}}'


def selected(metric: str) -> str:
    """Return a selector of a metric that is not lockscope's own, such as those of every scrape."""
    return f'{metric}{{job=~"$job", instance=~"$instance"}}'
