# seckill in the place of the Go peer: see scripts/bench and the peer's sut_go.sh for what run.sh expects of this file.
# shellcheck shell=bash disable=SC2034,SC2154

SECKILL_ROOT=${SECKILL_ROOT:?the checkout}
SECKILL_BIN=${SECKILL_BIN:-$SECKILL_ROOT/build/release/bin}

# hint = local refusals on; the number after the colon is how many loops (one core is "pinned").
HINT_VARIANTS=${HINT_VARIANTS-hint}
REJECT_VARIANTS=${REJECT_VARIANTS-redis}
ACCEPT_VARIANTS=${ACCEPT_VARIANTS-redis}
QUERY_VARIANTS=${QUERY_VARIANTS-redis}
IDLE_VARIANTS=${IDLE_VARIANTS-redis}
WRK_VARIANTS=${WRK_VARIANTS-hint}
WORKER_MODES=${WORKER_MODES-batch:1 batch:256}
FILL_VARIANT=${FILL_VARIANT-redis}
HOT_VARIANT=${HOT_VARIANT-hint}

# The generator is the peer's; its tokens are ours (they carry iss and aud).
sut_build() {
  mkdir -p "$BIN"
  [ -n "${NOBUILD:-}" ] || (cd "$HERE" && go build -o "$BIN/peer-load" ./cmd/peer-load)
  cat >"$BIN/peer-mint" <<M
#!/bin/bash
printf %s "\$JWT_SECRET" >"$BIN/secret"
exec "$SECKILL_BIN/seckillctl" --auth.keys="bench=HS256:$BIN/secret" token --user 1 --count "\$2" --ttl 24h
M
  chmod +x "$BIN/peer-mint"
}

sut_program() { # sut_program NAME FLAG…
  local name=$1; shift
  pinned "${CORES-}" "$SECKILL_BIN/$name" --auth.keys="bench=HS256:$BIN/secret" --redis.url="unix://$REDIS_SOCK" \
    --pg.conninfo="$PG_DSN" --redis.allow_unsafe=true --drain.endpoints=0 --log.level=warn "$@"
}
sut_loops() { if [ -n "${CORES-}" ]; then echo 1; else echo 0; fi; }

sut_api() { # sut_api VARIANT ADDRESS
  local hint=false
  case $1 in hint*) hint=true ;; esac
  sut_program seckill-api --api.listen="$2" --api.admin_listen=127.0.0.1:0 --api.loops="$(sut_loops)" --api.hint=$hint
}
sut_query() {
  sut_program query-api --query.listen="$2" --query.admin_listen=127.0.0.1:0 --query.loops="$(sut_loops)"
}
sut_worker() { # batch:SIZE
  local batch=${1#batch:}
  sut_program order-worker --worker.admin_listen=127.0.0.1:0 --worker.batch_max="${batch%+*}"
}

sut_ctl() { "$SECKILL_BIN/seckillctl" --redis.url="unix://$REDIS_SOCK" --pg.conninfo="$PG_DSN" "$@" >/dev/null; }
sut_schema() { sut_ctl migrate; }
sut_seed() { # sut_seed STOCK: see sut_go.sh
  local item=(--activity "$ACTIVITY" --sku "$SKU") p="sec:{$ACTIVITY:$SKU}" stock=$1
  printf 'FLUSHALL SYNC\nBGREWRITEAOF\n' | redis-cli -s "$REDIS_SOCK" >/dev/null
  psql -qX "$PG_DSN" -v ON_ERROR_STOP=1 -c 'TRUNCATE orders, consumer_inbox, outbox, stock_ledger, seckill_inventory, activities'
  [ "$stock" != 0 ] || stock=10000
  sut_ctl activity create "${item[@]}" --stock "$stock" --starts -1s --ends +1h
  sut_ctl stock warm "${item[@]}"
  sut_ctl activity open "${item[@]}"
  if [ "$1" = 0 ]; then
    { echo "SET $p:stock 0"; seq -f "%.0f \"019b0000-0000-7000-8000-000000000000 1 019b0000-0000-4000-8000-000000000000\"" -s ' ' 90000001 90010000 | sed "s/^/HSET $p:buyers /"; } |
      redis-cli -s "$REDIS_SOCK" >/dev/null
  fi
}
sut_published() { [ "$(psql -qXAt "$PG_DSN" -c 'SELECT count(*) FROM outbox WHERE settled_at IS NULL')" = 0 ]; }
