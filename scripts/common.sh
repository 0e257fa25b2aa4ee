# Functions that setup and test share; sourced by them, with `root` = the checkout.
# POSIX sh. Callers run under `set -eu`.
# shellcheck shell=sh

# losetup and mkfs are not in each user's PATH. For cargo it stays as it is, if possible.
users_path=$PATH
case :$PATH: in
    *:/usr/sbin:*) ;;
    *) PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin ;;
esac
export PATH

program=${0##*/}
say() { printf '%s: %s\n' "$program" "$*"; }
fail() {
    printf '%s: error: %s\n' "$program" "$*" >&2
    exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }
is_root() { [ "$(id -u)" -eq 0 ]; }

# Runs a command as root: through sudo, for another user.
as_root() {
    if is_root; then
        "$@"
    elif has sudo; then
        sudo "$@"
    else
        fail "this needs root, and there is no sudo: $*"
    fi
}

# The user of sudo: owner of the Rust toolchain and of the built files. Empty: the current user.
developer=
if is_root && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
    developer=$SUDO_USER
fi

# Runs a command as the developer, with the developer's cargo before that of the system.
as_developer() {
    set -- env "PATH=$rust_path" ${OTF2_DIR:+"OTF2_DIR=$OTF2_DIR"} \
        ${CI:+"CI=$CI"} ${IOTRACE_KILLS:+"IOTRACE_KILLS=$IOTRACE_KILLS"} "$@"
    if [ -n "$developer" ]; then
        sudo -u "$developer" -H -- "$@"
    else
        "$@"
    fi
}

# Sets `rust_path`. rustup's shells have ~/.cargo/bin in their PATH, sudo's and those of cron have
# not.
find_cargo() {
    if [ -n "$developer" ]; then
        rust_path=$(getent passwd "$developer" | cut -d: -f6)/.cargo/bin:$PATH
        # Not the caller's: perhaps root's.
        as_developer cargo --version >/dev/null 2>&1 || developer=''
    fi
    if [ -z "$developer" ]; then
        rust_path=$users_path
        is_root && rust_path=$PATH
        own=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin
        case :$rust_path: in
            *:"$own":*) ;;
            *) rust_path=$own:$rust_path ;;
        esac
    fi
    as_developer cargo --version >/dev/null 2>&1 ||
        fail "cargo is not there, Rust $(wanted_rust) or newer is needed: $(rust_remedy)"
    found=$(as_developer rustc --version | cut -d' ' -f2)
    is_at_least "$found" "$(wanted_rust)" ||
        fail "Rust $found is too old, $(wanted_rust) or newer is needed: $(rust_remedy)"
}

# Ways to a newer Rust. Debian 12 has no rustup.
rust_remedy() {
    if as_developer rustup --version >/dev/null 2>&1; then
        echo "rustup update stable && rustup default stable"
    elif (. /etc/os-release && [ "$ID" = debian ] && [ "${VERSION_ID:-14}" -ge 13 ]) 2>/dev/null; then
        echo "sudo apt install rustup && rustup default stable"
    else
        echo "https://rustup.rs has a toolchain"
    fi
}

# The oldest Rust that the workspace builds with.
wanted_rust() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml"; }

# is_at_least 1.95.0 1.90
is_at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -t. -k1,1n -k2,2n | head -n 1 | cut -d. -f1,2)" = "$2" ]
}

# cargo in the checkout, as the developer.
run_cargo() { (cd "$root" && as_developer cargo "$@"); }

# True if the OTF2 library is installed with its headers, which a test reads.
has_otf2() {
    [ -n "${OTF2_DIR:-}" ] || otf2-config --version >/dev/null 2>&1 ||
        pkg-config --exists otf2 2>/dev/null || [ -f /usr/local/include/otf2/otf2.h ]
}

has_tracefs() { grep -q '^[^ ]* [^ ]* tracefs ' /proc/self/mounts; }
