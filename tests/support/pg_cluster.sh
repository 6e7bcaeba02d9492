#!/bin/bash
# pg_cluster.sh DATA [SECKILLCTL]: makes a cluster there for a private PostgreSQL, with our schema if a seckillctl is named.
# initdb and a migration take seconds of a processor, a copy a tenth of one: so the first is kept below build/, and copied.
# Whoever may not write there makes one each time. Run it as who runs PostgreSQL.
set -euo pipefail
data=$1 seckillctl=${2:-}
bin=/usr/lib/postgresql/15/bin
kept=$(cd "$(dirname "$0")/../.." && pwd)/build/postgres-15

make() ( # make DATA: what a copy would take along for nothing, such as databases to copy databases from, is left out
    cluster=$1
    sql() { "$bin/psql" -q -h "$sockets" -U seckill -d postgres -v ON_ERROR_STOP=1 -c "$1"; }
    "$bin/initdb" -D "$cluster" -U seckill -A trust -E UTF8 --locale=C.UTF-8 --no-sync >/dev/null
    sockets=$(mktemp -d /tmp/sk-cluster-XXXXXX)
    trap '"$bin/pg_ctl" -D "$cluster" -w -m fast stop >/dev/null; rm -r "$sockets"' EXIT
    "$bin/pg_ctl" -D "$cluster" -w -l "$sockets/log" -o "-c listen_addresses= -c unix_socket_directories=$sockets -c fsync=off" start >/dev/null
    sql "ALTER DATABASE template0 IS_TEMPLATE false" && sql "DROP DATABASE template0"
    if [ -n "$seckillctl" ]; then
        "$seckillctl" "--pg.conninfo=host=$sockets user=seckill dbname=postgres" migrate </dev/null >/dev/null
        sql "ALTER DATABASE template1 IS_TEMPLATE false" && sql "DROP DATABASE template1"
    fi
)

name=empty stamp=-
if [ -n "$seckillctl" ]; then
    name=$(echo "$seckillctl" | sha256sum | cut -c1-16)
    stamp=$(stat -c '%Y %s %i' "$seckillctl")
fi
mkdir -p "$kept" 2>/dev/null || true
[ -w "$kept" ] || { make "$data"; exit; }
exec 9>"$kept/$name.lock"
flock 9
if [ "$(cat "$kept/$name.stamp" 2>/dev/null)" != "$stamp" ]; then
    rm -rf "${kept:?}/$name" "$kept/$name.stamp"
    make "$kept/$name"
    echo "$stamp" >"$kept/$name.stamp"
fi
flock -s 9
cp -a --sparse=always "$kept/$name" "$data"
