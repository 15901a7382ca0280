"""One module a lock library: which calls are observed and how they are read."""
