#!/bin/sh
# What the tests need from Debian: installed through apt when root, else named in one line.
set -eu
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
missing=""
need redis-server redis-server
need promtool prometheus
need prometheus prometheus
need chromium chromium
need amtool prometheus-alertmanager
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    # Debian starts what it installs; these servers are only wanted as binaries.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "missing packages:$missing (install them, for instance: sudo apt-get install$missing)" >&2
    exit 1
fi
