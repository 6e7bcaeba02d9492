#include "adapter/redis_results/redis_results.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

extern const char lua_results[];
static struct redis_script script = {"results", lua_results, ""};
static pthread_once_t script_once = PTHREAD_ONCE_INIT;

/* Results of one entry: appending costs Redis the same for one as for several. */
enum { PER_ENTRY = 16 };

struct redis_results {
    struct results port;
    struct redis *redis;
    int64_t max_len, keep_ms;
    struct list calls; /* struct results_call.link */
};

/* In the op_space of its operation. */
struct results_call {
    struct redis_call call;
    struct list link;
    struct redis_results *owner;
};
_Static_assert(sizeof(struct results_call) <= sizeof(struct op_space), "op_space");

static void init_script(void)
{
    redis_script_init(&script);
}

static struct redis_results *of(struct results *r)
{
    return container_of(r, struct redis_results, port);
}

static struct results_publish *operation(struct redis_call *c)
{
    return container_of((struct op_space *)(void *)container_of(c, struct results_call, call),
                        struct results_publish, space);
}

static void put_key(struct redis_writer *w, struct item item, const char *name)
{
    char key[96];
    int n = snprintf(key, sizeof key, "sec:{%lld:%lld}:%s", (long long)item.activity_id,
                     (long long)item.sku_id, name);
    redis_put(w, (struct str){key, (size_t)n});
}

static void on_encode(struct redis_call *c, struct redis_writer *w)
{
    const struct redis_results *s = container_of(c, struct results_call, call)->owner;
    const struct results_publish *p = operation(c);
    put_key(w, p->item, "results");
    put_key(w, p->item, "meta");
    redis_put_i64(w, s->max_len);
    redis_put_i64(w, s->keep_ms);
    for (int i = 0; i < p->n;) {
        char text[PER_ENTRY * (RESULT_MAX_BYTES + 1) + 1];
        struct strbuf list;
        strbuf_init_fixed(&list, text, sizeof text);
        for (int in = 0; in < PER_ENTRY && i < p->n; in++) {
            strbuf_add_str(&list, in > 0 ? STR(",") : STR("["));
            result_encode(&p->rows[i++].result, &list);
        }
        strbuf_add_str(&list, STR("]"));
        redis_put(w, strbuf_str(&list));
    }
}

static void on_reply(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct results_publish *p = operation(c);
    (void)reply;
    list_remove(&container_of(c, struct results_call, call)->link);
    for (int i = 0; i < p->n; i++)
        p->rows[i].published = rc == 0;
    p->op.on_done(&p->op, rc);
}

static void publish(struct results *port, struct results_publish *p)
{
    struct redis_results *s = of(port);
    struct results_call *c = (struct results_call *)(void *)p->space.bytes;
    *c = (struct results_call){.call = {.script = &script,
                                        .keys = 2,
                                        .args = 4 + (p->n + PER_ENTRY - 1) / PER_ENTRY,
                                        .on_encode = on_encode,
                                        .on_reply = on_reply,
                                        .deadline_us = p->op.deadline_us},
                               .owner = s};
    list_push_back(&s->calls, &c->link);
    redis_send(s->redis, &c->call);
}

static void cancel(struct results *port, struct op *op)
{
    struct redis_results *s = of(port);
    list_for_each (l, &s->calls) {
        struct results_call *c = container_of(l, struct results_call, link);
        if (&operation(&c->call)->op == op) {
            redis_cancel(s->redis, &c->call);
            return;
        }
    }
}

static const struct results_ops ops = {.publish = publish, .cancel = cancel};

struct results *redis_results_new(struct loop *l, const struct redis_results_config *c, char *err,
                                  size_t err_cap)
{
    struct redis_results *s = calloc(1, sizeof *s);
    struct redis_config config = c->redis;
    config.metric_link = "results";
    if (s)
        s->redis = redis_new(l, &config);
    if (!s || !s->redis) {
        free(s);
        snprintf(err, err_cap, "the results' connection: the URL is wrong, or there is no memory");
        return NULL;
    }
    pthread_once(&script_once, init_script);
    s->port.ops = &ops;
    s->max_len = c->max_len;
    s->keep_ms = c->keep_us / 1000;
    list_init(&s->calls);
    return &s->port;
}

void redis_results_free(struct results *r)
{
    if (!r)
        return;
    redis_free(of(r)->redis);
    free(of(r));
}
