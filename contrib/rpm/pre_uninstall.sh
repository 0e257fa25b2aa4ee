# A recorder that runs is stopped and disabled before the package is removed ($1 = 0), but not for
# an upgrade.
if [ "$1" -eq 0 ] && command -v systemctl >/dev/null; then
    if [ -d /run/systemd/system ]; then
        systemctl stop iotrace-perf-recorder.service >/dev/null 2>&1 || :
    fi
    systemctl --no-reload disable iotrace-perf-recorder.service >/dev/null 2>&1 || :
fi
