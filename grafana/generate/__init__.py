"""Generator of what lockscope ships for Grafana and Prometheus: ``python -m grafana.generate``."""
