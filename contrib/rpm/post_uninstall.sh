# After an upgrade ($1 = 1 or more), a recorder that runs is restarted. Logs in
# /var/lib/iotrace-perf stay.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload >/dev/null 2>&1 || :
    if [ "$1" -ge 1 ]; then
        systemctl try-restart iotrace-perf-recorder.service >/dev/null 2>&1 || :
    fi
fi
# The list of the package has no directories (cargo-generate-rpm 0.21 cannot make such entries).
if [ "$1" -eq 0 ]; then
    rmdir /usr/share/doc/iotrace-perf /usr/share/licenses/iotrace-perf 2>/dev/null || :
fi
