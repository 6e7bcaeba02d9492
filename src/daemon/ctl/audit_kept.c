/* How Redis keeps an item: what meta says against PostgreSQL, each record against meta, and that
 * all keys end with the item. Part of I7. */
#include "daemon/ctl/audit.h"
#include <stdio.h>

#define NAME(a, request) (audit_name(a, request).z)

/* Times in Redis have 13 digits (lua/README.md). */
/* Many moves of a few milliseconds each, and one through a bad network. */
#define MOVED_MS 60000

static int64_t in_redis(int64_t ms)
{
    const int64_t least = INT64_C(1000000000000), most = INT64_C(9999999999999);
    return ms < least ? least : ms > most ? most : ms;
}

static void check_time(struct audit *a, const char *what, int64_t redis_ms, int64_t pg_ms)
{
    if (redis_ms != in_redis(pg_ms))
        audit_broken(a, AUDIT_I7, "%s is %lld ms in Redis, %lld ms in PostgreSQL", what,
                     (long long)redis_ms, (long long)pg_ms);
}

static void check_meta(struct audit *a)
{
    const struct stock_item_info *redis = &a->counts.info;
    const struct pg_audit_inventory *pg = &a->counts.pg;
    if (redis->version.epoch != pg->epoch)
        audit_broken(a, AUDIT_I7, "the item is of epoch %lld in Redis, %lld in PostgreSQL",
                     (long long)redis->version.epoch, (long long)pg->epoch);
    check_time(a, "starts", redis->starts_ms, pg->starts_ms);
    check_time(a, "ends", redis->ends_ms, pg->ends_ms);
    check_time(a, "expires", redis->expires_ms, pg->expires_ms);
    if (pg->closed_ms && redis->state != STOCK_STATE_CLOSED)
        audit_broken(a, AUDIT_I7, "the item is closed in PostgreSQL and not in Redis");
    /* A rebuild would do what PostgreSQL says. */
    if (redis->state == STOCK_STATE_OPEN && pg->paused_ms)
        audit_broken(a, AUDIT_I7, "operators paused the item in PostgreSQL, and Redis sells");
    if (redis->state == STOCK_STATE_OPEN && !pg->opened)
        audit_broken(a, AUDIT_I7, "the item was never opened in PostgreSQL, and Redis sells");
    /* Rule 34: Redis went back behind what it gave. */
    int64_t given = a->counts.max_seq;
    if (redis->version.epoch == pg->epoch && pg->seq > given)
        given = pg->seq;
    if (redis->version.seq < given)
        audit_broken(a, AUDIT_I7, "Redis is at seq %lld, and gave seq %lld",
                     (long long)redis->version.seq, (long long)given);
}

/* The horizon is PostgreSQL's; what has none stays for ever, what ends before is lost. */
static void check_expiry(struct audit *a, const char *name, int64_t expires_ms)
{
    int64_t slack = a->counts.ends_may_move ? MOVED_MS : 0;
    int64_t off = expires_ms - in_redis(a->counts.pg.expires_ms);
    if (expires_ms == -1)
        audit_broken(a, AUDIT_I7, "%s: never expires", name);
    else if (expires_ms > 0 && (off > slack || off < -slack))
        audit_broken(a, AUDIT_I7, "%s: expires at %lld ms, the item at %lld ms", name,
                     (long long)expires_ms, (long long)in_redis(a->counts.pg.expires_ms));
}

static void check_record(struct audit *a, const struct audit_stored *s)
{
    int64_t epoch = a->counts.info.version.epoch;
    if (s->bad_rank)
        audit_broken(a, AUDIT_I7, "%s: is " STR_FMT " in Redis, with another state's rank",
                     NAME(a, s->request), STR_ARG(verdict_state_name(s->verdict.state)));
    /* Rule 36: a rebuild takes those that live into its epoch, and releases the others in theirs.
     * Rule 2: what is of another epoch is never settled. */
    if (epoch == a->counts.pg.epoch && s->epoch != epoch &&
        (audit_holds(s) || s->epoch > epoch || s->epoch < 1))
        audit_broken(a, AUDIT_I7, "%s: is of epoch %lld, the item of %lld", NAME(a, s->request),
                     (long long)s->epoch, (long long)epoch);
    if (s->expires_ms)
        check_expiry(a, NAME(a, s->request), s->expires_ms);
}

void audit_check_kept(struct audit *a)
{
    check_meta(a);
    for (int i = 0; i < REDIS_STOCK_KEYS; i++) {
        /* Results are kept for others, a while longer. */
        if (i == REDIS_STOCK_RESULTS &&
            a->counts.key_expires_ms[i] >= in_redis(a->counts.pg.expires_ms))
            continue;
        char name[32];
        snprintf(name, sizeof(name), "the key %s", redis_stock_key_name((enum redis_stock_key)i));
        check_expiry(a, name, a->counts.key_expires_ms[i]);
    }
    for (uint32_t i = 0; i < a->model.n_stored; i++) {
        const struct audit_stored *s = &a->model.stored[i];
        if (s->record && !s->bad_record)
            check_record(a, s);
    }
}
