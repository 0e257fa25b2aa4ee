#!/bin/bash
# Records the logs of tests/documents/logs again, as root:
#
#   tests/documents/record.sh IOTRACE_PERF [NAME…]
#
# Afterwards UPDATE_EXPECT=1 cargo test --test documents writes their outputs into the documents.
# Each command runs in /tmp/demo, with an empty environment, the host name "demo" and a mount table
# without what only this machine has.
set -euo pipefail

(($# >= 1)) || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
if [[ -z ${DOCUMENTS_INSIDE:-} ]]; then
    DOCUMENTS_INSIDE=1 exec unshare --mount --uts --propagation private "$(realpath "$0")" "$@"
fi

here=$(dirname "$(realpath "$0")")
demo=/tmp/demo
program=/tmp/iotrace-perf-of-documents
cp "$1" "$program"
shift
wanted=$*
trap 'rm -rf "$demo" "$program"' EXIT

hostname demo
while read -r _ _ _ _ place _; do
    case $place in
        / | /proc | /sys | /dev | /dev/pts | /dev/shm | /tmp | /sys/kernel/tracing) ;;
        *) umount -l "$place" ;;
    esac
done < <(tac /proc/self/mountinfo)

# record NAME ARGUMENTS…: a fresh /tmp/demo, in it what the command needs, and the log of it.
record() {
    local name=$1
    shift
    [[ -z $wanted || " $wanted " == *" $name "* ]] || return 0
    rm -rf "$demo"
    mkdir -p "$demo"
    cd "$demo"
    "$here/programs.sh"
    sync
    sleep 0.5
    env -i PATH=/usr/bin:/bin LC_ALL="${locale:-C}" "$program" -o "$name/" --no-archive "$@" </dev/null >/dev/null 2>errors
    tail -n +2 errors | grep warning || :
    install -m 644 "$name/traces.iocap" "$here/logs/$name.iocap"
}

mkdir -p "$here/logs"
record build -- make -s -C b -j2
record sq -- sqlite3 t.db "create table a(x); insert into a values(1);"
record py -- python3 p.py
record stat -e %default,%stat -- python3 s.py
record before -- ./app
record after -- ./app
# A locale without files of its own.
locale=de_DE.UTF-8 record ls -- ls -l /usr/share/common-licenses
# Its first read is to come from the disk.
dd if=/usr/share/common-licenses/GPL-3 iflag=nocache count=0 status=none
record demo -- dd if=/usr/share/common-licenses/GPL-3 of=copy.bin bs=16K conv=fsync
record slow -- dd if=/dev/zero of=journal bs=4099 count=5 oflag=dsync
record lay -e %default,layers -- sqlite3 t2.db "create table a(x); insert into a values(1);"
record dir -- sh -c 'echo a >data/a; cat data/a'
record st --stacks kernel -- dd if=/dev/zero of=st.bin bs=64K count=64 conv=fsync status=none
record pat -- fio --output=/dev/null --name=pf --filename=pf --rw=randread --bs=4k --size=2m --direct=1 --ioengine=libaio --iodepth=8
record rp --names uprobe --source tracefs -e %default,%stat,%attr -- tar -cf src.tar b
