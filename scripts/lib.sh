# Sourced by scripts/run, scripts/test and scripts/bench: installing, building, and starting private servers.
# shellcheck shell=bash disable=SC2034

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PG_BIN=/usr/lib/postgresql/15/bin

# What a build and a run need; what the tests need on top. Why each: docs/dependencies.md.
RUN_PACKAGES=(gcc libc6-dev cmake ninja-build pkg-config libevent-dev node-llhttp libhiredis-dev libpq-dev
    libyaml-dev libssl-dev libjansson-dev libnghttp2-dev libprotobuf-c-dev protobuf-c-compiler redis-server redis-tools postgresql-15 postgresql-client-15 procps util-linux)
TEST_PACKAGES=(libcmocka-dev python3-pytest python3-psycopg python3-redis python3-jwt python3-cryptography
    python3-requests python3-yaml clang libclang-rt-14-dev clang-format libfaketime pgbouncer etcd-server etcd-client nginx-light shellcheck)
# A RocketMQ of our own; an official client of it, which tells whether ours is right.
BROKER_PACKAGES=(openjdk-17-jre-headless maven openssl perl)
ORACLE_PACKAGES=(python3-venv python3-pip)

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
loud() { printf '\033[1;31m!!! %s\033[0m\n' "$*"; }
die() { loud "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo -- "$@"; else
        die "needs root or sudo to install packages: $*"
    fi
}

# install_packages NAME…: those that are missing, without starting any service they bring.
install_packages() {
    local missing=() p log=${INSTALL_LOG:-$ROOT/build/install.log}
    for p in "$@"; do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    mkdir -p "$(dirname "$log")"
    # shellcheck disable=SC2016
    as_root env DEBIAN_FRONTEND=noninteractive bash -ec '
        opts=(-y --no-install-recommends -o DPkg::Lock::Timeout=300)
        made=
        if [ ! -e /usr/sbin/policy-rc.d ]; then
            printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d
            chmod 755 /usr/sbin/policy-rc.d
            made=1
        fi
        trap "[ -z \"$made\" ] || rm -f /usr/sbin/policy-rc.d" EXIT
        apt-get -o DPkg::Lock::Timeout=300 update -q
        case " $* " in *" postgresql-15 "*)
            # Otherwise the package makes a cluster of its own, which nobody here needs.
            if ! dpkg-query -W postgresql-common >/dev/null 2>&1; then
                mkdir -p /etc/postgresql-common
                [ -e /etc/postgresql-common/createcluster.conf ] ||
                    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
                apt-get install "${opts[@]}" -o Dpkg::Options::=--force-confold postgresql-common
            fi ;;
        esac
        apt-get install "${opts[@]}" "$@"
    ' install "${missing[@]}" >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        die "installing failed (see $log)"
    }
}

# build PRESET [TARGET…]: configures once, builds; one build at a time per preset.
build() {
    mkdir -p "$ROOT/build"
    (
        flock 9
        cd "$ROOT" || exit 1
        if ! { cmake --preset "$1" && cmake --build --preset "$1" ${2:+--target "${@:2}"}; } >"build/$1.log" 2>&1; then
            tail -n 40 "build/$1.log" >&2
            die "building $1 failed (build/$1.log)"
        fi
    ) 9>"$ROOT/build/$1.lock"
}

free_port() {
    local p
    while :; do
        p=$((20000 + RANDOM % 12000))
        (: <"/dev/tcp/127.0.0.1/$p") 2>/dev/null || { echo "$p"; return; }
    done
}

# A unix socket's path has at most 107 bytes; a deep directory falls back to loopback TCP.
fits_socket() { [ "$(printf %s "$1" | wc -c)" -le 100 ]; }

# wait_for SECONDS COMMAND…
wait_for() {
    local tries=$(($1 * 50))
    shift
    until "$@" >/dev/null 2>&1; do
        ((tries-- > 0)) || return 1
        sleep 0.02
    done
}

# PostgreSQL refuses root. A user namespace in which we are "postgres" is the cleanest: no second process, files stay
# ours. Where namespaces are forbidden: setpriv, and the directory must be reachable for the user postgres.
pg_user_prefix() {
    if [ "$(id -u)" != 0 ]; then
        PG_AS=()
    elif unshare --user --map-user="$(id -u postgres)" --map-group="$(id -g postgres)" true 2>/dev/null; then
        PG_AS=(unshare --user --map-user="$(id -u postgres)" --map-group="$(id -g postgres)")
    else
        PG_AS=(setpriv --reuid=postgres --regid=postgres --clear-groups)
        PG_CHOWN=1
    fi
}

# pg_init DIR: a cluster with the superuser seckill; trust, reached only through a socket or loopback.
pg_init() {
    mkdir -p "$1"
    chmod 700 "$1"
    [ -z "${PG_CHOWN:-}" ] || chown postgres "$1"
    "${PG_AS[@]}" "$PG_BIN/initdb" -D "$1" -U seckill -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$1.initdb.log" 2>&1 ||
        die "initdb failed (see $1.initdb.log)"
}
