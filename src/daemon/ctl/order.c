/* seckillctl order show: one order as PostgreSQL has it. */
#include "adapter/pg/pg.h"
#include "base/clock.h"
#include "base/parse.h"
#include "daemon/ctl/ctl.h"
#include "port/orders.h"

struct order_args {
    bool json;
};
static const struct args_option options[] = {ARGS_JSON(struct order_args, json)};

static int find(const struct settings *s, int64_t id, struct orders_order *order)
{
    struct pg_config config = {.conninfo = s->pg.conninfo,
                               .connect_us = s->pg.connect_us,
                               .lifetime_us = s->pg.lifetime_us,
                               .application = "seckillctl"};
    struct orders *o = pg_orders_new(&config);
    struct ctx ctx;
    ctx_init(&ctx, NULL, clock_mono_us() + CTL_CALL_US);
    int rc = o->ops->find_order(o, &ctx, id, order);
    pg_orders_free(o);
    return rc;
}

static int run_show(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct order_args a = {0};
    struct orders_order order;
    struct str word = {0};
    int64_t id;
    int n = 1, rc = ctl_args(self, &a, argc, argv, &word, &n);
    if (rc >= 0)
        return rc;
    if (n != 1 || parse_i64(word, 1, INT64_MAX, &id) < 0) {
        ctl_complain("order show: wants the ID of an order");
        return CTL_USAGE;
    }
    rc = find(&c->settings, id, &order);
    if (rc != 0) {
        ctl_complain(rc > 0 ? "order show: there is no order %lld%s"
                            : "order show: order %lld: PostgreSQL: %s",
                     (long long)id, rc > 0 ? "" : err_name(rc));
        return CTL_FAILED;
    }
    struct out o;
    out_begin(&o, a.json, false);
    out_record(&o);
    out_id(&o, "order_id", order.order_id);
    out_str(&o, "status", str_of(order.status));
    out_i64(&o, "activity_id", order.item.activity_id);
    out_i64(&o, "sku_id", order.item.sku_id);
    out_i64(&o, "user_id", order.user_id);
    out_uuid(&o, "request_id", &order.request_id);
    out_uuid(&o, "reservation_id", &order.reservation_id);
    out_time(&o, "created_at", order.created_at_ms);
    out_time(&o, "updated_at", order.updated_at_ms);
    return out_end(&o) ? CTL_OK : CTL_FAILED;
}

const struct ctl_command order_show_command = {
    .group = "order",
    .verb = "show",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .words = "ID",
    .help = "one order, from PostgreSQL\n",
    .run = run_show,
};
