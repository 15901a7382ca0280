"""The dashboards, one file a board."""

from grafana.generate.boards.overview import OVERVIEW

BOARDS = (OVERVIEW,)
