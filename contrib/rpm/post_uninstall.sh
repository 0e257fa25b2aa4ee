# After an upgrade ($1 = 1 or more), a recorder that runs is restarted. Logs in
# /var/lib/iotrace-perf stay.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload >/dev/null 2>&1 || :
    if [ "$1" -ge 1 ]; then
        systemctl try-restart iotrace-perf-recorder.service >/dev/null 2>&1 || :
    fi
fi
