#include "adapter/pg/pg_orders.h"

#include "base/panic.h"
#include <stdlib.h>

static const struct orders_ops ops = {
    .place = pg_place,
    .cancel = pg_cancel_orders,
    .pay = pg_pay_orders,
    .park = pg_park,
    .parked = pg_parked,
    .parked_failed = pg_parked_failed,
    .expire = pg_expire,
    .mark_settled = pg_mark_settled,
    .unsettled = pg_unsettled,
    .unpublished = pg_unpublished,
    .mark_published = pg_mark_published,
    .unpublished_backlog = pg_unpublished_backlog,
    .retain = pg_retain,
    .inbox = pg_inbox,
    .void_message = pg_void_message,
    .quarantine = pg_quarantine,
    .count_attempts = pg_count_attempts,
    .attempts = pg_attempts,
    .suspect_begin = pg_suspect_begin,
    .suspect_clear = pg_suspect_clear,
    .beat = pg_beat,
    .find_request = pg_find_request,
    .find_order = pg_find_order,
    .inventory = pg_inventory,
    .warmed = pg_warmed,
    .reconcile_begin = pg_reconcile_begin,
    .reconcile_asked = pg_reconcile_asked,
    .reconcile_look = pg_reconcile_look,
    .reconcile_orders = pg_reconcile_orders,
    .reconcile_end = pg_reconcile_end,
    .watch = pg_watch,
    .rebuild_take = pg_rebuild_take,
    .rebuild_keep = pg_rebuild_keep,
    .rebuild_count = pg_rebuild_count,
    .rebuild_page = pg_rebuild_page,
    .rebuild_resettle = pg_rebuild_resettle,
    .rebuild_finish = pg_rebuild_finish,
    .probe = pg_probe,
};

struct orders *pg_orders_new(const struct pg_config *c)
{
    struct pg_orders *o = calloc(1, sizeof *o);
    if (!o)
        panic("pg: no memory");
    o->port.ops = &ops;
    pg_conn_init(&o->conn, c);
    return &o->port;
}

void pg_orders_free(struct orders *o)
{
    if (!o)
        return;
    struct pg_orders *p = container_of(o, struct pg_orders, port);
    pg_conn_deinit(&p->conn);
    free(p);
}
