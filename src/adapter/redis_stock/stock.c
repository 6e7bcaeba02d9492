/* The port: making it, and what all its operations share. */
#include "adapter/redis_stock/internal.h"

#include "base/panic.h"
#include <stdio.h>
#include <stdlib.h>

extern const char lua_claim[], lua_control[], lua_held[], lua_inspect[], lua_item[], lua_listed[],
    lua_lower[], lua_mark[], lua_mend[], lua_pending[], lua_probe[], lua_progress[],
    lua_rebuild_begin[], lua_rebuild_end[], lua_rebuild_restore[], lua_records[], lua_refuse[],
    lua_release[], lua_remember[], lua_remembered[], lua_republished[], lua_reserve[], lua_settle[],
    lua_slot[], lua_total[], lua_warm[];

static void init_scripts(struct redis_script *s)
{
    const struct redis_script all[SCRIPTS] = {
        [SCRIPT_CLAIM] = {"claim", lua_claim},
        [SCRIPT_CONTROL] = {"control", lua_control},
        [SCRIPT_HELD] = {"held", lua_held},
        [SCRIPT_INSPECT] = {"inspect", lua_inspect},
        [SCRIPT_ITEM] = {"item", lua_item},
        [SCRIPT_LISTED] = {"listed", lua_listed},
        [SCRIPT_LOWER] = {"lower", lua_lower},
        [SCRIPT_MARK] = {"mark", lua_mark},
        [SCRIPT_MEND] = {"mend", lua_mend},
        [SCRIPT_PENDING] = {"pending", lua_pending},
        [SCRIPT_PROBE] = {"probe", lua_probe},
        [SCRIPT_PROGRESS] = {"progress", lua_progress},
        [SCRIPT_REBUILD_BEGIN] = {"rebuild_begin", lua_rebuild_begin},
        [SCRIPT_REBUILD_END] = {"rebuild_end", lua_rebuild_end},
        [SCRIPT_REBUILD_RESTORE] = {"rebuild_restore", lua_rebuild_restore},
        [SCRIPT_RECORDS] = {"records", lua_records},
        [SCRIPT_REFUSE] = {"refuse", lua_refuse},
        [SCRIPT_RELEASE] = {"release", lua_release},
        [SCRIPT_REMEMBER] = {"remember", lua_remember},
        [SCRIPT_REMEMBERED] = {"remembered", lua_remembered},
        [SCRIPT_REPUBLISHED] = {"republished", lua_republished},
        [SCRIPT_RESERVE] = {"reserve", lua_reserve},
        [SCRIPT_SETTLE] = {"settle", lua_settle},
        [SCRIPT_SLOT] = {"slot", lua_slot},
        [SCRIPT_TOTAL] = {"total", lua_total},
        [SCRIPT_WARM] = {"warm", lua_warm},
    };
    memcpy(s, all, sizeof all);
    for (int i = 0; i < SCRIPTS; i++)
        redis_script_init(&s[i]);
}

static void init_metrics(struct redis_stock *st)
{
    static const char *const names[] = {"CREATED",  "REPLAY",   "DUPLICATE", "SOLD_OUT", "NO_ITEM",
                                        "TOO_LATE", "NOT_OPEN", "ENDED",     "PAUSED",   "BEHIND"};
    for (int i = 0; i <= STOCK_BEHIND; i++) {
        char labels[32];
        snprintf(labels, sizeof labels, "code=\"%s\"", names[i]);
        st->results[i] = metric_counter("seckill_redis_lua_result_total",
                                        "Answers of the reserve script.", labels);
    }
}

struct stock_call *stock_begin(struct redis_stock *st, struct op *op, struct op_space *space)
{
    _Static_assert(sizeof(struct stock_call) <= sizeof(struct op_space), "op_space is too small");
    struct stock_call *c = (struct stock_call *)(void *)space->bytes;
    *c = (struct stock_call){.st = st, .op = op};
    /* Full: it just cannot be cancelled; its deadline holds. */
    map_put(&st->active, (uint64_t)(uintptr_t)op, (uint64_t)(uintptr_t)c);
    return c;
}

void stock_end(struct stock_call *c, int rc)
{
    map_remove(&c->st->active, (uint64_t)(uintptr_t)c->op);
    c->op->on_done(c->op, rc);
}

static void run(struct stock_call *c, int keys, int args,
                void (*on_encode)(struct redis_call *, struct redis_writer *),
                void (*on_reply)(struct redis_call *, int, const struct redis_reply *))
{
    c->call.keys = keys;
    c->call.args = args;
    c->call.on_encode = on_encode;
    c->call.on_reply = on_reply;
    c->call.deadline_us = c->op->deadline_us;
    redis_send(c->st->redis, &c->call);
}

void stock_run(struct stock_call *c, enum stock_script script, int keys, int args,
               void (*on_encode)(struct redis_call *, struct redis_writer *),
               void (*on_reply)(struct redis_call *, int, const struct redis_reply *))
{
    c->call.script = &c->st->scripts[script];
    run(c, keys, keys + args, on_encode, on_reply);
}

void stock_run_command(struct stock_call *c, const char *name, int args,
                       void (*on_encode)(struct redis_call *, struct redis_writer *),
                       void (*on_reply)(struct redis_call *, int, const struct redis_reply *))
{
    c->call.script = NULL;
    c->call.name = name;
    c->call.key_at = 1;
    run(c, 0, args, on_encode, on_reply);
}

int stock_answer(struct stock_call *c, int rc, const struct redis_reply *reply, struct line *a)
{
    if (rc == 0)
        rc = line_parse(reply, a);
    if (rc == 0)
        redis_time_sample(redis_clock(&c->call), a->time_us, c->call.sent_us, c->call.received_us);
    return rc;
}

void stock_ask_listed(struct stock_call *c,
                      void (*on_encode)(struct redis_call *, struct redis_writer *),
                      void (*on_reply)(struct redis_call *, int, const struct redis_reply *))
{
    stock_run(c, SCRIPT_LISTED, 1, 1, on_encode, on_reply);
}

void stock_put_listed(struct redis_writer *w, struct item item)
{
    redis_put(w, STR(STOCK_CATALOGUE));
    keys_put_item(w, item);
}

static void stock_cancel(struct stock *s, struct op *op)
{
    struct redis_stock *st = stock_self(s);
    uint64_t found;
    if (map_get(&st->active, (uint64_t)(uintptr_t)op, &found))
        redis_cancel(st->redis, &((struct stock_call *)(uintptr_t)found)->call);
}

static const struct stock_ops ops = {
    .reserve = stock_reserve,
    .settle = stock_settle,
    .progress = stock_progress,
    .mark = stock_mark,
    .release = stock_release,
    .claim = stock_claim,
    .republished = stock_republished,
    .refuse = stock_refuse,
    .remember = stock_remember,
    .remembered = stock_remembered,
    .forget = stock_forget,
    .lookup = stock_lookup,
    .pending = stock_pending,
    .item = stock_item_get,
    .items = stock_items,
    .unlist = stock_unlist,
    .relist = stock_relist,
    .reports = stock_reports,
    .unreport = stock_unreport,
    .rebuild_begin = stock_rebuild_begin,
    .rebuild_restore = stock_rebuild_restore,
    .rebuild_end = stock_rebuild_end,
    .buyers = stock_buyers,
    .warm = stock_warm,
    .control = stock_control,
    .report = stock_report,
    .slot_lease = stock_slot_lease,
    .probe = stock_probe,
    .inspect = stock_inspect,
    .holders = stock_holders,
    .held = stock_held,
    .mend = stock_mend,
    .lower = stock_lower,
    .set_total = stock_set_total,
    .cancel = stock_cancel,
};

struct stock *redis_stock_new(struct loop *l, const struct redis_stock_config *c, char *err,
                              size_t err_cap)
{
    struct redis_stock *st = calloc(1, sizeof *st);
    struct redis_config config = c->redis;
    if (!config.metric_link)
        config.metric_link = "stock";
    if (st)
        st->redis = redis_new(l, &config);
    if (!st || !st->redis) {
        free(st);
        snprintf(err, err_cap,
                 "not a Redis URL: redis://[user:password@]host:port[/db], unix:///path, "
                 "redis+sentinel://host,…/master[/db] or redis+cluster://host:port,…");
        return NULL;
    }
    st->stock.ops = &ops;
    st->stream_queue = c->stream_queue;
    map_init(&st->active, 1 << 20);
    init_scripts(st->scripts);
    init_metrics(st);
    return &st->stock;
}

void redis_stock_free(struct stock *s)
{
    if (!s)
        return;
    struct redis_stock *st = stock_self(s);
    redis_free(st->redis);
    map_deinit(&st->active);
    free(st);
}

bool redis_stock_ready(const struct stock *s)
{
    return redis_ready(((const struct redis_stock *)(const void *)s)->redis);
}
