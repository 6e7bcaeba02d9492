/* The news of items: "A:S epoch seq" on one channel. */
#include "adapter/redis_stock/keys.h"
#include "adapter/redis_stock/line.h"
#include "adapter/redis_stock/redis_stock.h"

#include <stdlib.h>

struct news {
    struct redis_subscription sub;
    struct stock_news *owner;
};

static void on_message(struct redis_subscription *sub, struct str payload)
{
    struct news *n = container_of(sub, struct news, sub);
    struct item item;
    struct item_version v;
    if (keys_item_parse(line_word(&payload), &item) || line_i64(&payload, &v.epoch) ||
        line_i64(&payload, &v.seq))
        return; /* not ours */
    n->owner->on_version(n->owner, item, v);
}

static void on_link(struct redis_subscription *sub, bool up)
{
    struct news *n = container_of(sub, struct news, sub);
    n->owner->on_link(n->owner, up);
}

int redis_stock_news_start(struct loop *l, const struct redis_config *c, struct stock_news *owner)
{
    struct news *n = calloc(1, sizeof *n);
    if (!n)
        return ERR_OVERLOAD;
    struct redis_config config = *c;
    config.metric_link = "news";
    n->sub.on_message = on_message;
    n->sub.on_link = on_link;
    n->owner = owner;
    int rc = redis_subscribe(l, &config, STOCK_NEWS, &n->sub);
    if (rc < 0)
        free(n);
    else
        owner->impl = n;
    return rc;
}

void redis_stock_news_stop(struct stock_news *owner)
{
    struct news *n = owner->impl;
    if (!n)
        return;
    owner->impl = NULL;
    redis_unsubscribe(&n->sub);
    free(n);
}
