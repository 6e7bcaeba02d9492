#include "simulation.h"

/* Everything lives, nothing goes wrong any more, and what was in doubt has had its time: leases,
 * recovery, rebuilds, and what is lost after max_hold. */
static void recover(struct sim *x)
{
    sim_say(x, "all is healed");
    for (int i = 0; i < SIM_APIS; i++) {
        if (!x->apis[i].alive)
            sim_start_api(x, i);
    }
    for (int i = 0; i < SIM_WORKERS; i++) {
        if (!x->workers[i].w)
            sim_start_worker(x, i);
    }
    sim_heal(x);
    sim_run(x, 2 * SIM_MAX_HOLD_US + 60 * S);
}

static void poll_all(struct sim *x)
{
    for (int i = 0; i < x->n_asks; i++) {
        x->asks[i].ended = false;
        if (x->asks[i].posted)
            sim_poll(x, &x->asks[i]);
        sim_run(x, 20 * MS);
    }
    sim_run(x, S);
}

/* I10: whoever comes now gets what is left, and nobody after that. */
static void sell_the_rest(struct sim *x)
{
    int64_t user = 1000;
    for (int i = 0; i < SIM_ITEMS; i++) {
        struct stock_item_info info;
        for (int tries = 0;
             tries < 30 && mem_stock_info(x->stock, x->items[i], &info) && info.free > 0; tries++) {
            struct sim_ask *a = sim_new_ask(x, x->items[i], ++user);
            if (!a)
                break;
            sim_post(x, a);
            sim_run(x, 200 * MS);
        }
    }
    sim_run(x, 30 * S);
}

static void books(struct sim *x)
{
    const char *wrong = mem_db_audit(x->db);
    if (wrong)
        sim_wrong(x, "PostgreSQL: %s", wrong);
    if (mem_db_unsettled(x->db))
        sim_wrong(x, "%d outbox rows are not settled", mem_db_unsettled(x->db));
    if (mem_db_dead_letters(x->db))
        sim_wrong(x, "%d healthy messages were buried", mem_db_dead_letters(x->db));
    for (int i = 0; i < SIM_ITEMS; i++) {
        struct item item = x->items[i];
        long long sku = item.sku_id;
        struct stock_item_info info;
        int active = mem_db_active_orders(x->db, item);
        if (!mem_stock_info(x->stock, item, &info)) {
            sim_wrong(x, "sku %lld is not in Redis", sku);
            continue;
        }
        if (info.free + active != info.total)
            sim_wrong(x, "sku %lld: %lld free + %d orders of %lld", sku, (long long)info.free,
                      active, (long long)info.total);
        if (active != info.total)
            sim_wrong(x, "sku %lld: %d of %lld sold, with demand", sku, active,
                      (long long)info.total);
        if (info.pending)
            sim_wrong(x, "sku %lld: %lld reservations are pending", sku, (long long)info.pending);
        if (mem_broker_unacked(x->broker, item))
            sim_wrong(x, "sku %lld: %d messages wait", sku, mem_broker_unacked(x->broker, item));
        if (mem_stock_remembered(x->stock, item))
            sim_wrong(x, "sku %lld: %d commands are remembered", sku,
                      mem_stock_remembered(x->stock, item));
    }
}

static void answers(struct sim *x)
{
    int paid = 0, pay_accepted = 0, pay_maybe = 0, succeeded[SIM_ITEMS] = {0};
    for (int i = 0; i < x->n_asks; i++) {
        const struct sim_ask *a = &x->asks[i];
        long long user = a->user, sku = a->item.sku_id;
        bool bought = a->ended && a->end.state == VERDICT_SUCCEEDED;
        if (a->posting)
            sim_wrong(x, "user %lld sku %lld was never answered", user, sku);
        if (a->known.accepted && !a->ended) /* I3 */
            sim_wrong(x, "user %lld sku %lld was accepted and has no end", user, sku);
        if (bought && !a->maybe) /* I6 */
            sim_wrong(x, "user %lld sku %lld was refused each time and has an order", user, sku);
        if (a->ended && a->end.reason == REASON_LOST_RESERVATION && !x->redis_lost)
            sim_wrong(x, "user %lld sku %lld: Redis lost nothing", user, sku);
        if (a->ended && a->end.reason == REASON_LOST_ORDER && !x->pg_lost)
            sim_wrong(x, "user %lld sku %lld: PostgreSQL lost nothing", user, sku);
        /* Redis or PostgreSQL may take it along (docs/decisions/0026); a queue may not. */
        if (bought && a->cancel_accepted && !a->pay_maybe && !x->redis_lost && !x->pg_lost)
            sim_wrong(x, "user %lld sku %lld: an accepted cancel came to nothing", user, sku);
        if (bought && a->order_id && strcmp(mem_db_order_status(x->db, a->order_id), "NONE") == 0)
            sim_say(x, "user %lld sku %lld is told SUCCEEDED and there is no order", user, sku);
        for (int k = 0; bought && k < SIM_ITEMS; k++)
            succeeded[k] += item_eq(x->items[k], a->item);
        paid += a->order_id && strcmp(mem_db_order_status(x->db, a->order_id), "PAID") == 0;
        pay_accepted += a->pay_accepted;
        pay_maybe += a->pay_maybe;
    }
    for (int i = 0; i < SIM_ITEMS; i++) {
        int active = mem_db_active_orders(x->db, x->items[i]);
        if (succeeded[i] != active)
            sim_wrong(x, "sku %lld: %d orders, %d buyers know of one",
                      (long long)x->items[i].sku_id, active, succeeded[i]);
    }
    int known = paid + mem_db_refunds(x->db);
    if (!x->redis_lost && !x->pg_lost && (known < pay_accepted || known > pay_maybe))
        sim_wrong(x, "%d paid + refunded of %d payments accepted, %d made", known, pay_accepted,
                  pay_maybe);
}

void sim_inquest(struct sim *x)
{
    recover(x);
    poll_all(x);
    sell_the_rest(x);
    poll_all(x);
    books(x);
    answers(x);
}
