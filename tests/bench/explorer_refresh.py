"""The explorer with 10,000 live locks: first table, work of a refresh, memory over an hour of refreshes.

Bars: first table within 2 s, at most 300 ms of work a refresh with five viewers, less than 20 MB of growth in
an hour of refreshing (accelerated here: 1,800 refreshes by five viewers as fast as they go). What five
viewers cost Redis is measured beside what the sampler costs it when nobody looks: it should be the same.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time

import psutil
from playwright.sync_api import sync_playwright

from explorer_stage import Folder, start_explorer
from lockscope import tokens
from lockscope.jobs import Job
from lockscope_dashboard.board import Board
from lockscope_dashboard.frames import locks as frames
from lockscope_dashboard.views import table
from lockscope_exporter.configuration import Options
from lockscope_exporter.sampling import open_source
from servers import RedisServer, wait_until

LOCKS = 10_000
VIEWERS = 5
WATCHED = 60.0  # seconds
ALONE = 20.0  # seconds
HOUR = 1_800  # refreshes: one every two seconds, shared by the viewers
MB = 1_000_000


def fill(server: RedisServer) -> None:
    """Take 10,000 locks of 20 families and 40 jobs, self-described, for an hour."""
    client = server.client()
    with client.pipeline(transaction=False) as pipe:
        for number in range(LOCKS):
            job = Job(job_type=f"job.kind{number % 40}", job_id=str(number))
            key = f"lock:{'abcdefghijklmnopqrst'[number % 20]}work:{number}"
            pipe.set(key, tokens.describe(job, time.time()), px=3_600_000 + number)
        pipe.execute()
    client.close()


def refresh(board: Board, filters: frames.Filters, sort: str) -> int:
    """Do one viewer's share of a refresh; return the bytes that would travel."""
    snapshot = board.snapshot()
    ordered = frames.order(frames.apply(snapshot.frame, filters), sort)
    rows, _, _ = frames.page(ordered, 1, 50)
    return len(json.dumps(table.rows(rows)))


def in_process(server: RedisServer) -> dict[str, float]:
    """Measure the work of a refresh of five viewers who look at different things, and its memory."""
    options = Options(redis_url=server.url)
    clock = [time.time()]
    board = Board(open_source(options.targets(), options.sampling()), clock=lambda: clock[0])
    board.source.start()
    try:
        wait_until(lambda: len(board.source.locks()) == LOCKS, timeout=120, what="sampled")
        viewers = [
            (frames.Filters(), "state"),
            (frames.Filters(q="work:99"), "ttl"),
            (frames.Filters(prefix=("lock:awork:*",)), "age"),
            (frames.Filters(q="lock:b*"), "key"),
            (frames.Filters(state=("held",)), "job"),
        ]
        times = []
        for _ in range(15):
            clock[0] += 2.0
            start = time.process_time()
            for filters, sort in viewers:
                refresh(board, filters, sort)
            times.append(time.process_time() - start)
        process = psutil.Process()
        before = process.memory_info().rss
        for _ in range(HOUR // len(viewers)):
            clock[0] += 2.0
            for viewer in viewers:
                refresh(board, *viewer)
        grown = process.memory_info().rss - before
    finally:
        board.stop()
    return {
        "CPU of one refresh of all 5 viewers, ms": statistics.median(times) * 1000,
        "growth over an hour, MB": grown / MB,
    }


def cost_of(server: RedisServer, seconds: float) -> float:
    """Watch Redis for some seconds; return the CPU seconds it spends a second."""
    client = server.client()
    try:
        used = [client.info("cpu")]
        time.sleep(seconds)
        used.append(client.info("cpu"))
    finally:
        client.close()
    before, after = (one["used_cpu_user"] + one["used_cpu_sys"] for one in used)
    return float(after - before) / seconds


def in_browser(server: RedisServer) -> dict[str, float]:
    """Measure what five people with open browsers see and cost."""
    folder = Folder()
    try:
        url = start_explorer(folder, server.url)
        process = psutil.Process(folder.processes[-1].pid)
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            seen = []
            for _ in range(VIEWERS):
                tab = chromium.new_page()
                start = time.perf_counter()
                tab.goto(f"{url}/?refresh=1+s", timeout=120_000)
                tab.wait_for_selector("a.key", timeout=60_000)
                seen.append(time.perf_counter() - start)
            time.sleep(10)  # not a test: let the first garbage go, then measure what stays
            before, cpu = process.memory_info().rss, sum(process.cpu_times()[:2])
            watched = cost_of(server, WATCHED)
            spent = sum(process.cpu_times()[:2]) - cpu
            grown = process.memory_info().rss - before
            chromium.close()
        alone = cost_of(server, ALONE)
    finally:
        folder.close()
    return {
        "first table, first visitor of a fresh server, s": seen[0],
        "first table, later visitors, s": statistics.median(seen[1:]),
        "CPU a refresh and viewer, ms": spent / (WATCHED * VIEWERS) * 1000,
        "growth over a minute with 5 viewers, MB": grown / MB,
        "Redis CPU with 5 viewers, ms a second": watched * 1000,
        "Redis CPU with none, ms a second": alone * 1000,
    }


def main() -> None:
    """Print the table."""
    server = RedisServer(port=None)
    try:
        fill(server)
        load = psutil.getloadavg()[0] / (psutil.cpu_count() or 1)
        print(f"explorer, {LOCKS:,} live locks; load before {load:.1f} a core")
        for measure in (in_process, in_browser):
            for name, value in measure(server).items():
                print(f"  {name:<50}{value:>10.2f}", flush=True)
    finally:
        server.close()


if __name__ == "__main__":
    main()
