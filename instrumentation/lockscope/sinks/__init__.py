"""One module a sink: where lock events go."""
