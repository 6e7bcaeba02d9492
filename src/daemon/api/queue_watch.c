#include "daemon/api/queue_watch.h"

#include "base/log.h"
#include "daemon/api/api.h"

#define FRESH_US 100000
#define START_PATIENCE_US 10000000 /* less than what an orchestrator gives a start */

/* --- a data loop's side --- */

static void on_ask(struct loop_post *p)
{
    struct queue_report *r = container_of(p, struct queue_report, ask);
    struct data_loop *d = container_of(r, struct data_loop, queue_report);
    const char *why = event_queue_complaint(&d->queue);
    r->lasting = event_queue_complaint_lasts(&d->queue);
    r->ready = event_queue_ready(&d->queue);
    str_copy(r->why, sizeof(r->why), str_of(why ? why : ""));
    loop_post(d->api->control.loop, &r->tell);
}

/* --- the control loop's side --- */

/* `recover` goes on selling without the queue: held units wait for recovery. `strict` would refuse
 * everybody whose unit it took. */
static bool sells_without(const struct queue_watch *w)
{
    return w->api->settings.api.publish_refused != SETTINGS_REFUSED_STRICT;
}

static void finish_check(struct queue_watch *w)
{
    const char *why = w->why[0] ? w->why : w->ready ? NULL : "no route to the queue yet";
    admin_check_done(&w->check, w->ready || sells_without(w) ? 0 : ERR_UNAVAIL, why);
}

static void on_tell(struct loop_post *p)
{
    struct queue_report *r = container_of(p, struct queue_report, tell);
    struct queue_watch *w = &container_of(r, struct data_loop, queue_report)->api->control.queue;
    if (--w->asked)
        return;
    w->ready = true;
    w->lasting = false;
    w->why[0] = '\0';
    for (int i = 0; i < w->api->n_loops; i++) {
        const struct queue_report *each = &w->api->loops[i].queue_report;
        w->ready &= each->ready;
        if (!w->why[0] || (each->lasting && !w->lasting))
            memcpy(w->why, each->why, sizeof(w->why));
        w->lasting |= each->lasting;
    }
    w->told_us = loop_now_us(w->api->control.loop);
    if (w->check.running)
        finish_check(w);
}

static void ask(struct queue_watch *w)
{
    if (w->asked)
        return;
    w->asked = w->api->n_loops;
    for (int i = 0; i < w->api->n_loops; i++)
        loop_post(w->api->loops[i].loop, &w->api->loops[i].queue_report.ask);
}

static void start_check(struct admin_check *check)
{
    ask(container_of(check, struct queue_watch, check));
}

void queue_report_init(struct data_loop *d)
{
    d->queue_report.ask.on_run = on_ask;
    d->queue_report.tell.on_run = on_tell;
}

void queue_watch_init(struct queue_watch *w, struct api *api)
{
    w->api = api;
    w->check = (struct admin_check){.name = "queue", .start = start_check};
}

bool queue_watch_lets_start(struct queue_watch *w)
{
    int64_t now = loop_now_us(w->api->control.loop);
    if (event_queue_is_stores(&w->api->settings))
        return true;
    if (!w->since_us)
        w->since_us = now;
    if (!w->told_us || now - w->told_us > FRESH_US)
        ask(w);
    if (!w->told_us)
        return false;
    if (w->ready)
        return true;
    const char *why = w->why[0] ? w->why : NULL;
    if (sells_without(w) && !w->lasting && now - w->since_us >= START_PATIENCE_US) {
        log_warn("starting without the queue", LOG_Z("why", why ? why : "no answer yet"));
        return true;
    }
    event_queue_log_waiting(&w->wait, now, why);
    return false;
}

void queue_watch_end(struct queue_watch *w)
{
    if (w->check.running)
        admin_check_done(&w->check, ERR_CANCELED, "draining");
}
