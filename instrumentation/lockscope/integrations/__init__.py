"""One module a worker framework: the job behind a lock and its retries, without application code."""
