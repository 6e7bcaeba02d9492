#include "app/reporter.h"

#include "base/log.h"
#include <stdio.h>
#include <string.h>

static const char *const why_names[REPORT_WHYS] = {
    [REPORT_NOWHERE] = "an accepted request is nowhere",
    [REPORT_BEHIND] = "the store is behind what it said",
};

void reporter_init(struct reporter *r)
{
    static const char *const labels[REPORT_WHYS] = {
        [REPORT_NOWHERE] = "why=\"nowhere\"", [REPORT_BEHIND] = "why=\"behind\""};
    memset(r->slots, 0, sizeof(r->slots));
    for (int i = 0; i < REPORT_WHYS; i++)
        r->count.sent[i] = metric_counter("seckill_suspect_reports_total",
                                          "items reported because the store may have lost "
                                          "something, by what was seen",
                                          labels[i]);
    static const char lost[] = "seckill_suspect_unreported_total";
    static const char help[] = "reports of items that did not reach the store, by reason";
    r->count.failed = metric_counter(lost, help, "reason=\"failed\"");
    r->count.dropped = metric_counter(lost, help, "reason=\"no_room\"");
}

static void on_reported(struct op *op, int rc)
{
    struct reporter_slot *s = container_of(op, struct reporter_slot, call.op);
    s->busy = false;
    if (rc == 0)
        return;
    s->next_us = 0;
    metric_add(s->owner->count.failed, 1);
}

/* The item's own place, or one that nobody needs any more. NULL: there is none, or it is too early.
 */
static struct reporter_slot *place(struct reporter *r, struct item item)
{
    struct reporter_slot *free = NULL;
    int64_t now = r->sched->now_us;
    for (int i = 0; i < REPORTER_ITEMS; i++) {
        struct reporter_slot *s = &r->slots[i];
        bool idle = !s->busy && s->next_us <= now;
        if (item_eq(s->item, item) && (idle || s->busy || s->next_us))
            return idle ? s : NULL;
        if (idle && !free)
            free = s;
    }
    if (!free)
        metric_add(r->count.dropped, 1);
    return free;
}

void reporter_report(struct reporter *r, struct item item, enum report_why why)
{
    static struct log_limit limit;
    uint64_t suppressed;
    struct reporter_slot *s = place(r, item);
    if (!s)
        return;
    int64_t now = r->sched->now_us;
    *s = (struct reporter_slot){
        .owner = r, .item = item, .next_us = now + REPORTER_EVERY_US, .busy = true};
    s->call = (struct stock_report){.op = {on_reported, now + r->call_us}, .item = item};
    metric_add(r->count.sent[why], 1);
    if (log_allowed(&limit, now, &suppressed))
        log_warn("an item is reported to the workers", LOG_Z("why", why_names[why]),
                 LOG_I("activity_id", item.activity_id), LOG_I("sku_id", item.sku_id),
                 LOG_I("suppressed", (int64_t)suppressed));
    r->stock->ops->report(r->stock, &s->call);
}
