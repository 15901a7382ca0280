"""The demo: real worker processes that run into everything people meet with Redis locks."""
