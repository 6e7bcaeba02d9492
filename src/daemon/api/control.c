/* The control loop: what the process does once, however many data loops it has. */
#include "base/log.h"
#include "daemon/api/api.h"
#include "daemon/common/store.h"

static struct control *of_life(struct lifecycle *l)
{
    return container_of(l, struct control, life);
}

/* --- phases --- */

/* Ids only go upwards: after the clock was set back there are none until it has caught up. */
static bool is_clock_behind(const struct control *c)
{
    return order_id_highest_ms(&c->api->ids) > loop_wall_us(c->loop) / 1000 + ORDER_ID_MAX_AHEAD_MS;
}

static bool has_ids(const struct control *c)
{
    return order_id_held(&c->api->ids, loop_now_us(c->loop)) && !is_clock_behind(c);
}

static bool is_started(struct lifecycle *l)
{
    struct control *c = of_life(l);
    return has_ids(c) && redis_stock_ready(c->stock) && queue_watch_lets_start(&c->queue);
}

static void begin_drain(struct lifecycle *l)
{
    struct api *api = of_life(l)->api;
    for (int i = 0; i < api->n_loops; i++)
        data_loop_drain(&api->loops[i]);
}

void control_on_drained(struct loop_post *p)
{
    struct data_loop *d = container_of(p, struct data_loop, drained);
    lifecycle_drained(&d->api->control.life);
}

/* --- readiness, on the real path --- */

static void on_probed(struct op *op, int rc)
{
    struct control *c = container_of(op, struct control, probe.op);
    admin_check_done(&c->redis_check, rc, NULL);
}

static void start_redis_check(struct admin_check *check)
{
    struct control *c = container_of(check, struct control, redis_check);
    c->probe.op =
        (struct op){.on_done = on_probed,
                    .deadline_us = loop_now_us(c->loop) + c->api->settings.redis.reply_us};
    c->stock->ops->probe(c->stock, &c->probe);
}

static void on_ids_task(struct loop_task *t)
{
    struct control *c = container_of(t, struct control, ids_task);
    bool ok = has_ids(c);
    const char *why = ok ? NULL
                      : is_clock_behind(c)
                          ? "the clock went back behind the last order id: no order ids until it "
                            "has caught up, or this process is started again"
                          : "no instance number is held: no order ids";
    admin_check_done(&c->ids_check, ok ? 0 : ERR_UNAVAIL, why);
}

static void start_ids_check(struct admin_check *check)
{
    struct control *c = container_of(check, struct control, ids_check);
    loop_defer(c->loop, &c->ids_task);
}

/* --- hints --- */

static void to_data_loops(struct control *c, const struct hint_mail *mail)
{
    for (int i = 0; i < c->api->n_loops; i++) {
        if (mail->kind == HINT_MAIL_SET)
            hint_set_ref(mail->set);
        hint_mailbox_put(&c->api->loops[i].mailbox, mail);
    }
}

static void on_set(struct hint_loader *l, struct hint_set *set)
{
    struct control *c = container_of(l, struct control, loader);
    to_data_loops(
        c, &(struct hint_mail){
               .kind = HINT_MAIL_SET, .item = set->item, .version = set->version, .set = set});
    hint_set_unref(set);
}

static void on_news(struct hint_loader *l, struct item item, struct item_version v)
{
    struct control *c = container_of(l, struct control, loader);
    to_data_loops(c, &(struct hint_mail){.kind = HINT_MAIL_NEWS, .item = item, .version = v});
}

static void on_off(struct hint_loader *l)
{
    struct control *c = container_of(l, struct control, loader);
    to_data_loops(c, &(struct hint_mail){.kind = HINT_MAIL_OFF});
}

static void on_mail(struct hint_mailbox *m, const struct hint_mail *mail)
{
    struct control *c = container_of(m, struct control, mailbox);
    if (mail->kind == HINT_MAIL_SOLD_OUT && c->loader_started)
        hint_loader_sold_out(&c->loader, mail->item, mail->version);
}

static int start_hints(struct control *c)
{
    const struct settings *s = &c->api->settings;
    c->loader.stock = c->stock;
    c->loader.sched = loop_sched(c->loop);
    c->loader.rng = &c->rng;
    c->loader.call_us = s->redis.reply_us;
    c->loader.max_buyers = s->api.hint_max_buyers;
    c->loader.on_set = on_set;
    c->loader.on_news = on_news;
    c->loader.on_off = on_off;
    hint_loader_init(&c->loader);
    c->loader_started = true;
    struct redis_config config = store_redis_config(&c->api->settings, "news");
    int rc = redis_stock_news_start(c->loop, &config, &c->loader.news);
    c->news_started = rc == 0;
    return rc;
}

/* --- the instance number --- */

static int64_t wall_ms(struct slot *s)
{
    return loop_wall_us(container_of(s, struct control, slot)->loop) / 1000;
}

static void start_ids(struct control *c)
{
    const struct settings *s = &c->api->settings;
    if (s->api.instance_id >= 0) {
        slot_fixed(&c->api->ids, (int)s->api.instance_id, loop_wall_us(c->loop) / 1000);
        return;
    }
    c->slot = (struct slot){.stock = c->stock,
                            .sched = loop_sched(c->loop),
                            .rng = &c->rng,
                            .ids = &c->api->ids,
                            .lease_us = s->api.instance_lease_us,
                            .call_us = s->redis.reply_us,
                            .wall_ms = wall_ms};
    slot_start(&c->slot);
    c->slot_started = true;
}

/* --- life --- */

static int init_admin(struct control *c, char *err, size_t err_cap)
{
    const struct settings *s = &c->api->settings;
    c->redis_check = (struct admin_check){.name = "redis", .start = start_redis_check};
    c->ids_check = (struct admin_check){.name = "order_ids", .start = start_ids_check};
    c->checks[0] = &c->redis_check;
    c->checks[1] = &c->ids_check;
    queue_watch_init(&c->queue, c->api);
    c->checks[2] = &c->queue.check;
    list_init(&c->ids_task.link);
    c->ids_task.on_run = on_ids_task;
    struct admin_config config = {.listen = s->api.admin_listen,
                                  .token_file = s->admin.token_file,
                                  .conf = &c->api->conf,
                                  .checks = c->checks,
                                  /* the store's own queue is asked by the store's check */
                                  .n_checks = event_queue_is_stores(s) ? 2 : 3};
    c->admin = admin_new(c->loop, &config, err, err_cap);
    return c->admin ? 0 : ERR_UNAVAIL;
}

int control_init(struct control *c, struct api *api, char *err, size_t err_cap)
{
    c->api = api;
    c->loop = loop_new();
    if (!c->loop)
        return ERR_OVERLOAD;
    rng_init(&c->rng);
    c->mailbox.loop = c->loop;
    c->mailbox.on_mail = on_mail;
    hint_mailbox_init(&c->mailbox);
    struct redis_stock_config stock = {.redis = store_redis_config(&api->settings, "control"),
                                       .stream_queue = event_queue_is_stores(&api->settings)};
    c->stock = redis_stock_new(c->loop, &stock, err, err_cap);
    if (!c->stock)
        return ERR_INVALID;
    int rc = init_admin(c, err, err_cap);
    if (rc < 0)
        return rc;
    c->life = (struct lifecycle){.loop = c->loop,
                                 .admin = c->admin,
                                 .endpoints_us = api->settings.drain.endpoints_us,
                                 .n_loops = api->n_loops,
                                 .is_started = is_started,
                                 .begin_drain = begin_drain};
    return lifecycle_init(&c->life);
}

void control_run(struct control *c)
{
    start_ids(c);
    if (c->api->settings.api.hint && start_hints(c) < 0)
        log_warn("no news of items: the sold-out hints are off");
    c->catalogue.stock = c->stock;
    c->catalogue.sched = loop_sched(c->loop);
    c->catalogue.call_us = c->api->settings.redis.reply_us;
    catalogue_watch_start(&c->catalogue);
    c->catalogue_started = true;
    lifecycle_start(&c->life);
    loop_run(c->loop);
}

void control_deinit(struct control *c)
{
    if (!c->loop)
        return;
    if (c->slot_started)
        slot_stop(&c->slot);
    if (c->catalogue_started)
        catalogue_watch_stop(&c->catalogue);
    if (c->loader_started)
        hint_loader_stop(&c->loader);
    if (c->news_started)
        redis_stock_news_stop(&c->loader.news);
    if (c->stock)
        redis_stock_free(c->stock); /* ends what is under way: a probe, a load, the lease */
    if (c->loader_started)
        hint_loader_deinit(&c->loader);
}

void control_free_admin(struct control *c)
{
    if (!c->loop)
        return;
    if (c->ids_check.running) {
        loop_defer_cancel(&c->ids_task);
        on_ids_task(&c->ids_task);
    }
    queue_watch_end(&c->queue);
    lifecycle_deinit(&c->life);
    if (c->admin)
        admin_free(c->admin);
    hint_mailbox_close(&c->mailbox);
    loop_free(c->loop);
    hint_mailbox_deinit(&c->mailbox);
}
