#include "daemon/ctl/books.h"

#include "adapter/pg/pg.h"
#include "base/clock.h"
#include "base/err.h"

struct orders *ctl_orders(struct ctl *c)
{
    struct pg_config config = {.conninfo = c->settings.pg.conninfo,
                               .connect_us = c->settings.pg.connect_us,
                               .lifetime_us = c->settings.pg.lifetime_us,
                               .application = "seckillctl"};
    if (!c->orders)
        c->orders = pg_orders_new(&config);
    return c->orders;
}

struct ctx ctl_ctx(void)
{
    struct ctx ctx;
    ctx_init(&ctx, NULL, clock_mono_us() + CTL_CALL_US);
    return ctx;
}

int ctl_orders_failed(const char *what, int rc)
{
    ctl_complain("%s: PostgreSQL %s (%s)", what,
                 rc == ERR_UNCERTAIN ? "did not answer in time: it may have been done"
                                     : "cannot be reached or refused",
                 err_name(rc));
    return err_is_unknown(rc) ? CTL_UNKNOWN : CTL_FAILED;
}

int books_settle(struct ctl *c, const char *what, struct item item, struct stock_settle_row *row,
                 int64_t outbox_id)
{
    struct stock *stock = ctl_stock(c);
    struct stock_settle settle = {.item = item, .rows = row, .n = 1};
    int rc = ERR_UNAVAIL;
    if (stock) {
        ctl_op(c, &settle.op, CTL_CALL_US);
        stock->ops->settle(stock, &settle);
        rc = ctl_await(c);
    }
    if (rc == 0 && row->result != STOCK_SETTLED && row->result != STOCK_IGNORED)
        rc = ERR_CONFLICT; /* a rebuild, or a record that cannot be read: the relay's again */
    if (rc != 0) {
        ctl_complain("%s: decided in PostgreSQL; Redis could not be told (%s): the worker will",
                     what, err_name(rc));
        return rc;
    }
    struct ctx ctx = ctl_ctx();
    struct orders *orders = ctl_orders(c);
    if (outbox_id) /* if that fails the relay tells Redis once more, which changes nothing */
        orders->ops->mark_settled(orders, &ctx, &outbox_id, 1, settings_results(&c->settings));
    return 0;
}
