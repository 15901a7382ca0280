"""YAML as people read it, and the rules as a manifest of the Prometheus operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from lockscope_exporter.alerts.build import RuleGroup


class _Dumper(yaml.SafeDumper):
    """Block style, keys in the order given, texts of several lines as literal blocks, no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write every value out; an alias would tie two rules together for whoever edits one."""
        del data
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)


def dump(document: Any, comment: str) -> str:
    """Return a document as YAML below a comment line."""
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
    return f"# {comment}\n{text}"


def prometheus_rule(groups: list[RuleGroup]) -> dict[str, Any]:
    """Return the groups as a manifest of the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "lockscope", "labels": {"app.kubernetes.io/name": "lockscope"}},
        "spec": {"groups": groups},
    }
