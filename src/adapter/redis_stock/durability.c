/* What a Redis must be set to for a 202 to be true: asked once at start-up, of every server that is
 * written to, on a loop of its own. */
#include "adapter/redis_stock/redis_stock.h"

#include "base/clock.h"
#include <stdio.h>

struct check {
    struct redis_call call;
    struct loop *loop;
    struct timer turn;
    int rc;
    char *err;
    size_t err_cap;
};

static const struct {
    const char *name, *want;
} settings[] = {
    {"appendonly", "yes"},
    {"appendfsync", "always"},
    {"maxmemory-policy", "noeviction"},
};
enum { SETTINGS = sizeof settings / sizeof *settings, TURN_US = 1000 };

static void on_encode(struct redis_call *c, struct redis_writer *w)
{
    (void)c;
    redis_put(w, STR("CONFIG"));
    redis_put(w, STR("GET"));
    for (int i = 0; i < SETTINGS; i++)
        redis_put(w, str_of(settings[i].name));
}

static struct str value_of(const struct redis_reply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->n; i += 2) {
        if (str_eq(reply->items[i]->s, str_of(name)))
            return reply->items[i + 1]->s;
    }
    return (struct str){0};
}

static void judge(struct check *k, const struct redis_reply *reply)
{
    for (int i = 0; i < SETTINGS; i++) {
        struct str is = value_of(reply, settings[i].name);
        if (str_eq(is, str_of(settings[i].want)))
            continue;
        k->rc = ERR_DENIED;
        snprintf(k->err, k->err_cap,
                 "this Redis may lose or evict orders that it confirmed: %s is \"" STR_FMT
                 "\"; set it with: redis-cli CONFIG SET %s %s",
                 settings[i].name, STR_ARG(is), settings[i].name, settings[i].want);
        return;
    }
    k->rc = 0;
}

static void on_reply(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct check *k = container_of(c, struct check, call);
    if (rc == 0 && reply->type == REDIS_ARRAY) {
        judge(k, reply);
    } else {
        k->rc = ERR_UNAVAIL;
        if (reply && reply->type == REDIS_ERROR)
            snprintf(k->err, k->err_cap, "CONFIG GET: " STR_FMT, STR_ARG(reply->s));
        else
            snprintf(k->err, k->err_cap, "Redis does not answer (%s)", err_name(rc));
    }
    loop_stop(k->loop);
}

static void on_turn(struct timer *t)
{
    struct check *k = container_of(t, struct check, turn);
    loop_stop(k->loop);
}

/* False: not in time. */
static bool await_servers(struct check *k, const struct redis *r, int64_t until_us)
{
    while (!redis_ready(r) && clock_mono_us() < until_us) {
        sched_set_in(loop_sched(k->loop), &k->turn, TURN_US);
        loop_run(k->loop);
    }
    sched_clear(loop_sched(k->loop), &k->turn);
    return redis_ready(r);
}

static void ask(struct check *k, struct redis *r, int64_t until_us)
{
    if (!await_servers(k, r, until_us)) {
        k->rc = ERR_UNAVAIL;
        snprintf(k->err, k->err_cap, "Redis does not answer (%s)", err_name(ERR_DEADLINE));
        return;
    }
    for (int i = 1; i <= redis_servers(r) && k->rc == 0; i++) {
        k->call = (struct redis_call){.name = "config",
                                      .server = i,
                                      .args = 2 + SETTINGS,
                                      .on_encode = on_encode,
                                      .on_reply = on_reply,
                                      .deadline_us = until_us};
        redis_send(r, &k->call);
        loop_run(k->loop);
    }
}

int redis_check_durability(const char *url, int64_t timeout_us, char *err, size_t err_cap)
{
    struct loop *l = loop_new();
    if (!l)
        return ERR_OVERLOAD;
    struct check k = {.loop = l, .err = err, .err_cap = err_cap, .turn = {.on_fire = on_turn}};
    const struct redis_config c = {.url = url, .slot_us = timeout_us, .metric_link = "check"};
    struct redis *r = redis_new(l, &c);
    if (!r) {
        snprintf(err, err_cap, "not a Redis URL");
        loop_free(l);
        return ERR_INVALID;
    }
    ask(&k, r, clock_mono_us() + timeout_us);
    redis_free(r);
    loop_free(l);
    return k.rc;
}
