"""lockscope_exporter: samples live Redis locks of any library and serves them as metrics and JSON."""
