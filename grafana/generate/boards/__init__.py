"""The dashboards, one file a board."""

from grafana.generate.boards.exporter import EXPORTER
from grafana.generate.boards.overview import OVERVIEW
from grafana.generate.boards.prefix import PREFIX
from grafana.generate.boards.queues import QUEUES
from grafana.generate.boards.slo import SLO

BOARDS = (OVERVIEW, PREFIX, QUEUES, SLO, EXPORTER)
