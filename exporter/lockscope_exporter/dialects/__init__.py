"""Every lock library's format: what its keys look like, who owns them, and how one may be freed."""

from lockscope_exporter.dialects.defaults import DEFAULT_PATTERNS, KNOWN_GLOBS
from lockscope_exporter.dialects.model import Decoded, Dialect, Form, Reading, ReadPlan, Release, Wake
from lockscope_exporter.dialects.recognise import ANY, DIALECTS, NAMES, decode, dialect, form_of, plan, wants

__all__ = [
    "ANY",
    "DEFAULT_PATTERNS",
    "DIALECTS",
    "KNOWN_GLOBS",
    "NAMES",
    "Decoded",
    "Dialect",
    "Form",
    "ReadPlan",
    "Reading",
    "Release",
    "Wake",
    "decode",
    "dialect",
    "form_of",
    "plan",
    "wants",
]
