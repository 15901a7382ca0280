"""Read the journal: worker metrics for processes without a port, timelines, takeovers and overlaps."""

from lockscope_exporter.journal.feed import JournalFeed
from lockscope_exporter.journal.leases import Overlap, Party, Takeover
from lockscope_exporter.journal.past import read_past

__all__ = ["JournalFeed", "Overlap", "Party", "Takeover", "read_past"]
