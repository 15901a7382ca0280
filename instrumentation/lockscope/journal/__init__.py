"""The journal: lock events of many processes in one capped Redis stream.

An entry holds many events of one process, as one JSON document; ``docs/journal.md`` describes it for readers
in other languages. Tokens never get into it, only their fingerprints.
"""

from lockscope.journal.model import DB, KEY, Entry, FormatError, Losses, Recorded, Writer
from lockscope.journal.reading import decode
from lockscope.journal.writing import encode, recorded

__all__ = [
    "DB",
    "KEY",
    "Entry",
    "FormatError",
    "Losses",
    "Recorded",
    "Writer",
    "decode",
    "encode",
    "recorded",
]
