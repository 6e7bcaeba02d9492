#include "daemon/ctl/ctl.h"

#include "adapter/pg/pg.h"
#include "adapter/redis_stock/redis_stock.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/panic.h"
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void ctl_complain(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("seckillctl: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}

int ctl_args(const struct ctl_command *self, void *dst, int argc, char **argv, struct str *words,
             int *n_words)
{
    char err[512];
    struct str none[1];
    int no_words = 0;
    if (args_read(self->options, self->n_options, dst, argc, argv, words ? words : none,
                  n_words ? n_words : &no_words, clock_wall_us() / 1000, err, sizeof(err)) == 0)
        return -1;
    ctl_complain("%s%s%s: %s (see --help)", self->group, self->verb ? " " : "",
                 self->verb ? self->verb : "", err);
    return CTL_USAGE;
}

struct loop *ctl_loop(struct ctl *c)
{
    if (!c->loop && !(c->loop = loop_new()))
        ctl_complain("no memory or descriptors for an event loop");
    return c->loop;
}

struct redis_config ctl_redis_config(const struct ctl *c, const char *link)
{
    return (struct redis_config){.url = c->settings.redis.url,
                                 .dial_us = c->settings.redis.dial_us,
                                 .stall_us = CTL_CALL_US,
                                 .slot_us = c->settings.redis.dial_us * 2,
                                 .backoff_min_us = c->settings.redis.backoff_min_us,
                                 .backoff_max_us = c->settings.redis.backoff_max_us,
                                 .max_pending = (int)c->settings.redis.max_pending,
                                 .metric_link = link};
}

struct stock *ctl_stock(struct ctl *c)
{
    char err[256];
    if (c->stock || !ctl_loop(c))
        return c->stock;
    struct redis_stock_config config = {.redis = ctl_redis_config(c, "stock"),
                                        .stream_queue = event_queue_is_stores(&c->settings)};
    c->stock = redis_stock_new(c->loop, &config, err, sizeof(err));
    if (!c->stock) {
        ctl_complain("%s", err);
        return NULL;
    }
    /* Calls wait for a connection only `redis.slot_timeout`: here the time of a dial is waited for.
     */
    int64_t give_up_us = clock_mono_us() + c->settings.redis.dial_us * 2;
    while (!redis_stock_ready(c->stock) && clock_mono_us() < give_up_us)
        ctl_sleep(c, 1000);
    return c->stock;
}

void ctl_deinit(struct ctl *c)
{
    event_queue_deinit(&c->queue);
    if (c->orders)
        pg_orders_free(c->orders);
    if (c->stock)
        redis_stock_free(c->stock);
    if (c->loop)
        loop_free(c->loop);
    c->orders = NULL;
    c->stock = NULL;
    c->loop = NULL;
    conf_deinit(&c->conf);
}

/* The operation that is waited for: an op has no room for a pointer of its submitter's. */
static struct {
    struct loop *loop;
    bool done;
    int rc;
} awaited;

static void on_op_done(struct op *op, int rc)
{
    (void)op;
    awaited.done = true;
    awaited.rc = rc;
    loop_stop(awaited.loop);
}

void ctl_op(struct ctl *c, struct op *op, int64_t timeout_us)
{
    /* The loop's clock stands still between two turns of ours. */
    op->on_done = on_op_done;
    op->deadline_us = clock_mono_us() + timeout_us;
    awaited.loop = c->loop;
    awaited.done = false;
}

int ctl_await(struct ctl *c)
{
    while (!awaited.done)
        loop_run(c->loop);
    return awaited.rc;
}

struct nap {
    struct timer timer;
    struct loop *loop;
};

static void on_awake(struct timer *t)
{
    loop_stop(container_of(t, struct nap, timer)->loop);
}

void ctl_sleep(struct ctl *c, int64_t us)
{
    struct nap nap = {.loop = c->loop};
    nap.timer.on_fire = on_awake;
    sched_set(loop_sched(c->loop), &nap.timer, clock_mono_us() + us);
    while (nap.timer.slot != 0)
        loop_run(c->loop);
}

int ctl_stock_failed(const struct ctl *c, const char *what, int rc)
{
    (void)c;
    ctl_complain("%s: Redis %s (%s)", what,
                 rc == ERR_UNCERTAIN  ? "did not answer in time: it may have been done"
                 : rc == ERR_INTERNAL ? "gave an answer that makes no sense"
                                      : "cannot be reached or refused",
                 err_name(rc));
    return CTL_FAILED;
}

struct str ctl_login(char *mem, size_t cap)
{
    char host[64] = "";
    const char *user = getenv("SUDO_USER");
    const struct passwd *entry = user ? NULL : getpwuid(getuid());
    if (entry)
        user = entry->pw_name;
    if (gethostname(host, sizeof(host) - 1) < 0)
        host[0] = 0;
    if (user)
        snprintf(mem, cap, "%s@%s", user, host);
    else
        snprintf(mem, cap, "uid %lld@%s", (long long)getuid(), host);
    return str_of(mem);
}

void ctl_sign(void)
{
    char who[160], name[192];
    ctl_login(who, sizeof(who));
    snprintf(name, sizeof(name), "seckillctl %s", who);
    setenv("PGAPPNAME", name, 1);
}
