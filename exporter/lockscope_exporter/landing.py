"""The exporter's landing page: one self-contained HTML page, every text escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from lockscope._version import __version__
from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockscope_exporter.state import Family, NodeStatus

_LINKS = (
    ("/metrics", "Prometheus metrics; OpenMetrics if the client asks for it"),
    ("/api/v1/locks", "live locks as JSON, the most urgent first"),
    ("/-/healthy", "whether the process works"),
    ("/-/ready", "whether the first sample is complete"),
)
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 3rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-bottom: 0; }
p.what { margin-top: .2rem; opacity: .75; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: .25rem 1.2rem .25rem 0; vertical-align: top; white-space: nowrap; }
th { font-weight: 600; border-bottom: 1px solid; }
.servers td:nth-child(3), .servers td:nth-child(5), .prefixes td:first-child {
  white-space: normal; overflow-wrap: anywhere; }
.prefixes td:last-child, .prefixes th:last-child { text-align: right; font-variant-numeric: tabular-nums; }
code { font-size: .92em; }
"""


def landing_page(nodes: Iterable[NodeStatus], families: Iterable[Family]) -> str:
    """Return the page.

    Args:
        nodes: how sampling stands.
        families: counts by prefix.
    """
    links = "".join(
        f'<li><a href="{path}"><code>{path}</code></a> {escape(what)}</li>' for path, what in _LINKS
    )
    rows = [
        (
            _code(node.target),
            _code(node.node),
            "up" if node.up else f"down: {_text(node.error or 'no answer yet')}",
            _text(node.mode),
            "<br>".join(map(_text, node.warnings)),
        )
        for node in nodes
    ]
    counts = [
        (
            _code(family.prefix),
            str(family.db),
            _code(family.target),
            str(sum(family.keys.values())) if family.known else "unknown",
        )
        for family in sorted(families, key=lambda family: (family.target, family.db, family.prefix))
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>lockscope exporter</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>"
        f"<h1>lockscope exporter</h1><p class=what>Redis locks, live. Version {escape(__version__)}.</p>"
        f"<ul>{links}<li><code>/probe?target=NAME</code> Prometheus metrics of one target</li></ul>"
        + _table("Servers", ("target", "node", "state", "feed", "to know"), rows)
        + _table("Prefixes", ("prefix", "db", "target", "live locks"), counts)
        + "</body></html>"
    )


def _table(title: str, names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table of cells that are HTML already."""
    if not rows:
        return f"<h2>{title}</h2><p>None yet.</p>"
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<h2>{title}</h2><table class={title.lower()}><tr>{head}</tr>{body}</table>"


def _text(text: str) -> str:
    return escape(shown(text, 200))


def _code(text: str) -> str:
    return f"<code>{_text(text)}</code>"
