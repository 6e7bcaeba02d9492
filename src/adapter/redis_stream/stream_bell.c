/* The doorbell: XREAD COUNT 1 BLOCK over all items from the last delivered ids, on a connection of
 * its own. It consumes nothing; it only says which items to read. Armed only while a receive waits
 * with nothing to do, so a busy worker does not ring at all and an idle one asks once a second.
 *
 * A ring that is lost (connection, a key of another type in the list) costs latency only: items
 * that no bell hears are polled by stream_read.c. */
#include "adapter/redis_stream/stream.h"

#include "base/err.h"

#define BLOCK_MS 1000
#define BELL_US 2500000 /* until the reply is given up */
#define AGAIN_US 50000  /* after a failure */

static void encode(struct redis_call *c, struct redis_writer *w)
{
    struct stream *s = container_of(c, struct stream, ring.call);
    redis_put(w, STR("XREAD"));
    redis_put(w, STR("COUNT"));
    redis_put(w, STR("1"));
    redis_put(w, STR("BLOCK"));
    redis_put_i64(w, BLOCK_MS);
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
    s->ring.busy = false;
    if (rc)
        s->ring.not_before_us = loop_now_us(s->loop) + AGAIN_US;
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

void stream_bell_arm(struct stream *s)
{
    int64_t now = loop_now_us(s->loop);
    if (s->ring.busy || now < s->ring.not_before_us)
        return;
    s->ring.serial++;
    list_for_each (l, &s->items) {
        struct stream_item *it = container_of(l, struct stream_item, link);
        if (!it->pos_known || it->not_before_us > now)
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
