/* The doorbell: XREAD COUNT 1 BLOCK over the items from the last delivered ids, on a connection of
 * its own. It consumes nothing; it only says which items to read. Whether a quiet item is heard
 * must not depend on the others being quiet, so it is armed in both states:
 *
 *   idle   nothing is hot: over all items, for a second, at once after each ring
 *   busy   over the items that are not hot (a hot one would ring without end and is read anyway),
 *          briefly, since what cools meanwhile is not in it; not at once after the last, so that a
 *          short read does not count as busy and many quiet items cost no more than a few
 *
 * A ring that is lost (connection, a key of another type in the list) costs latency only: items
 * that no bell hears are polled by stream_read.c. So are all streams of a cluster, where one XREAD
 * takes those of one slot only. */
#include "adapter/redis_stream/stream.h"

#include "base/err.h"
#include "base/panic.h"
#include <stdlib.h>

#define IDLE_BLOCK_MS 1000
#define BUSY_BLOCK_MS 50
#define BUSY_GAP_US 5000
#define BUSY_GAP_ITEM_US 20 /* and for each item that is listened to: Redis looks at each */
#define BELL_US 2500000     /* until the reply is given up */
#define AGAIN_US 50000      /* after a failure */

static void encode(struct redis_call *c, struct redis_writer *w)
{
    struct stream *s = container_of(c, struct stream, ring.call);
    redis_put(w, STR("XREAD"));
    redis_put(w, STR("COUNT"));
    redis_put(w, STR("1"));
    redis_put(w, STR("BLOCK"));
    redis_put_i64(w, s->ring.block_ms);
    redis_put(w, STR("STREAMS"));
    for (int i = 0; i < s->ring.n; i++)
        redis_put(w, str_of(s->ring.items[i]->key));
    for (int i = 0; i < s->ring.n; i++)
        redis_put(w, str_of(s->ring.items[i]->pos));
}

static void heat_key(struct stream *s, struct str key)
{
    for (int i = 0; i < s->ring.n; i++) {
        if (str_eq(key, str_of(s->ring.items[i]->key)))
            stream_heat(s, s->ring.items[i]);
    }
}

static void on_ring(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct stream *s = container_of(c, struct stream, ring.call);
    int64_t now = loop_now_us(s->loop);
    s->ring.busy = false;
    s->ring.busy_from_us = now + BUSY_GAP_US + (int64_t)BUSY_GAP_ITEM_US * s->ring.n;
    if (rc)
        s->ring.not_before_us = now + AGAIN_US;
    for (size_t i = 0; rc == 0 && reply->type == REDIS_ARRAY && i < reply->n; i++) {
        if (reply->items[i]->type == REDIS_ARRAY && reply->items[i]->n == 2)
            heat_key(s, reply->items[i]->items[0]->s);
    }
    for (int i = 0; i < s->ring.n; i++)
        stream_unref(s, s->ring.items[i]);
    s->ring.n = 0;
    stream_pump_later(s);
}

bool stream_bell_hears(const struct stream *s, const struct stream_item *it)
{
    return s->ring.busy && it->bell == s->ring.serial;
}

static void make_room(struct stream *s)
{
    if (s->ring.cap >= s->n_items)
        return;
    struct stream_item **items =
        realloc(s->ring.items, (size_t)s->n_items * sizeof s->ring.items[0]);
    if (!items)
        panic("redis_stream: no memory for the bell");
    s->ring.items = items;
    s->ring.cap = s->n_items;
}

static void arm(struct stream *s, int block_ms)
{
    int64_t now = loop_now_us(s->loop);
    if (s->cluster || s->ring.busy || now < s->ring.not_before_us)
        return;
    make_room(s);
    s->ring.block_ms = block_ms;
    s->ring.serial++;
    list_for_each (l, &s->items) {
        struct stream_item *it = container_of(l, struct stream_item, link);
        if (!it->pos_known || it->hot || it->not_before_us > now)
            continue;
        it->bell = s->ring.serial;
        s->ring.items[s->ring.n++] = stream_ref(it);
    }
    if (s->ring.n == 0)
        return;
    s->ring.call = (struct redis_call){.name = "xread",
                                       .args = 6 + 2 * s->ring.n,
                                       .on_encode = encode,
                                       .on_reply = on_ring,
                                       .deadline_us = now + BELL_US};
    s->ring.busy = true;
    redis_send(s->bell, &s->ring.call);
}

void stream_bell_arm_idle(struct stream *s)
{
    arm(s, IDLE_BLOCK_MS);
}

void stream_bell_arm_busy(struct stream *s)
{
    if (s->n_hot > 0 && s->n_hot < s->n_items && loop_now_us(s->loop) >= s->ring.busy_from_us)
        arm(s, BUSY_BLOCK_MS);
}
