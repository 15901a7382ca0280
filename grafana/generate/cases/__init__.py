"""Unit tests of the rules, for promtool: what each alert must do, case by case.

Every alert has at least one case of each kind: it fires, it stays silent, both sides of its boundary, a
restart of the process (counters back at 0), its series absent, and input that comes and goes. The expected
outcome is written by hand here; only the notation is generated.
"""

from grafana.generate.cases.acquire import ACQUIRE
from grafana.generate.cases.lease import LEASE
from grafana.generate.cases.queues import QUEUES
from grafana.generate.cases.sampler import SAMPLER
from grafana.generate.cases.slo import SLO
from grafana.generate.cases.state import STATE

CASES = (*ACQUIRE, *LEASE, *STATE, *QUEUES, *SLO, *SAMPLER)
