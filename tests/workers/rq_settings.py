"""Settings of an RQ worker (``rq worker -c rq_settings``): observation begins in the worker itself."""

from __future__ import annotations

import common

common.observe()
