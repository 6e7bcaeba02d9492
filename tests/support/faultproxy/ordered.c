#include "ordered.h"

#include "drop.h"
#include <stdlib.h>

void ordered_init(struct ordered *o, struct tracker *t)
{
    *o = (struct ordered){.tracker = t};
}

void ordered_deinit(struct ordered *o)
{
    for (; o->n; o->n--, o->head = (o->head + 1) % o->cap)
        toxic_unref(o->asked[o->head]);
    toxic_unref(o->current);
    free(o->asked);
}

static bool grow(struct ordered *o)
{
    size_t cap = o->cap ? o->cap * 2 : 16;
    struct toxic **asked = cap <= ORDERED_MAX ? calloc(cap, sizeof *asked) : NULL;
    if (!asked)
        return false;
    for (size_t i = 0; i < o->n; i++)
        asked[i] = o->asked[(o->head + i) % o->cap];
    free(o->asked);
    o->asked = asked;
    o->head = 0;
    o->cap = cap;
    return true;
}

void ordered_ask(struct ordered *o, struct toxic *dropper)
{
    if (o->n == o->cap && !grow(o)) {
        toxic_unref(dropper);
        tracker_lost(o->tracker, "too many requests under way");
        return;
    }
    o->asked[(o->head + o->n++) % o->cap] = dropper;
}

static bool begin(struct ordered *o)
{
    if (!o->n)
        return false;
    o->current = o->asked[o->head];
    o->head = (o->head + 1) % o->cap;
    o->n--;
    o->in_reply = true;
    if (o->current)
        tracker_swallow(o->tracker, o->current);
    return true;
}

static void end(struct ordered *o)
{
    struct toxic *by = o->current;
    o->current = NULL;
    o->in_reply = false;
    if (by)
        drop_done(tracker_conn(o->tracker), by);
    else if (tracker_swallower(o->tracker))
        tracker_swallower(o->tracker)->collateral++;
}

void ordered_reply(struct ordered *o, ordered_feed *feed, void *parser, const char *bytes, size_t n)
{
    while (n) {
        enum ordered_event event = ORDERED_NOTHING;
        size_t used = feed(parser, bytes, n, &event);
        tracker_pass(o->tracker, STREAM_DOWNSTREAM, bytes, used);
        bytes += used;
        n -= used;
        if (event == ORDERED_END)
            end(o);
        if (event == ORDERED_LOST || (event == ORDERED_BEGIN && !begin(o))) {
            tracker_pass(o->tracker, STREAM_DOWNSTREAM, bytes, n);
            tracker_lost(o->tracker, "a reply that is none, or to nothing");
            return;
        }
    }
}

void ordered_reply_end(struct ordered *o)
{
    if (o->in_reply)
        end(o);
}
