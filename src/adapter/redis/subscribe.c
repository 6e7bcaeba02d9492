/* Subscriber mode. Happy path: link up → SUBSCRIBE → its confirmation: on_link(true) → messages. A
 * PING goes out every half of stall_us, since a subscription that hears nothing cannot tell silence
 * from a dead peer; no answer by the next one and a half: the link is given up, on_link(false), and
 * it starts again. */
#include "adapter/redis/internal.h"

#include <stdlib.h>

struct subscriber {
    struct redis_conn *conn;
    struct redis_subscription *owner;
    char channel[128];
    struct timer ping_timer;
    bool up;
};

static void say(struct redis_conn *r, const struct str *words, int n)
{
    pipeline_words(r, SLOT_CALL, words, n);
    link_write(r);
}

static void on_ping_timer(struct timer *t)
{
    struct subscriber *s = container_of(t, struct subscriber, ping_timer);
    struct redis_conn *r = s->conn;
    int64_t now = loop_now_us(r->loop);
    sched_set_in(loop_sched(r->loop), t, r->config.stall_us / 2);
    if (now - r->heard_us >= r->config.stall_us) {
        link_fail(r, "the subscription hears nothing any more");
        return;
    }
    struct str words[] = {STR("PING")};
    say(r, words, 1);
}

static void on_push(struct redis_conn *r, const struct redis_reply *reply)
{
    struct subscriber *s = r->owner;
    if (reply->type == REDIS_ERROR) {
        char why[160];
        str_copy(why, sizeof why, reply->s);
        link_fail(r, why);
        return;
    }
    if (reply->type != REDIS_ARRAY || reply->n < 2)
        return;
    struct str kind = reply->items[0]->s;
    if (str_eq(kind, STR("message")) && reply->n == 3) {
        s->owner->on_message(s->owner, reply->items[2]->s);
    } else if (str_eq(kind, STR("subscribe")) && !s->up) {
        s->up = true;
        s->owner->on_link(s->owner, true);
    }
}

static void on_link(struct redis_conn *r, bool up)
{
    struct subscriber *s = r->owner;
    struct sched *sched = loop_sched(r->loop);
    if (up) {
        struct str words[] = {STR("SUBSCRIBE"), str_of(s->channel)};
        sched_set_in(sched, &s->ping_timer, r->config.stall_us / 2);
        say(r, words, 2);
        return;
    }
    sched_clear(sched, &s->ping_timer);
    if (s->up) {
        s->up = false;
        s->owner->on_link(s->owner, false);
    }
}

int redis_subscribe(struct loop *l, const struct redis_config *c, const char *channel,
                    struct redis_subscription *sub)
{
    struct redis_url url;
    if (!c->url || redis_url_parse(c->url, &url))
        return ERR_INVALID;
    struct subscriber *s = calloc(1, sizeof *s);
    if (!s || !str_copy(s->channel, sizeof s->channel, str_of(channel))) {
        free(s);
        return ERR_INVALID;
    }
    s->conn = conn_new(l, c, &url);
    if (!s->conn) {
        free(s);
        return ERR_INVALID;
    }
    s->owner = sub;
    s->ping_timer.on_fire = on_ping_timer;
    s->conn->owner = s;
    s->conn->on_push = on_push;
    s->conn->on_link = on_link;
    sub->impl = s;
    return 0;
}

void redis_unsubscribe(struct redis_subscription *sub)
{
    struct subscriber *s = sub->impl;
    if (!s)
        return;
    sub->impl = NULL;
    sched_clear(loop_sched(s->conn->loop), &s->ping_timer);
    conn_close(s->conn);
    conn_free(s->conn);
    free(s);
}
