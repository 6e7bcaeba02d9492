/* seckillctl order show|cancel: one order. */
#include "base/err.h"
#include "base/parse.h"
#include "core/event.h"
#include "daemon/ctl/action.h"
#include "daemon/ctl/books.h"
#include "daemon/ctl/item_args.h"
#include <stdio.h>

struct order_args {
    bool json, yes;
};

/* -1 with the order; else the exit status. */
static int load(struct ctl *c, const struct ctl_command *self, int argc, char **argv,
                struct order_args *a, struct orders_order *order)
{
    struct str word = {0};
    char what[32];
    int64_t id;
    int n = 1, rc = ctl_args(self, a, argc, argv, &word, &n);
    if (rc >= 0)
        return rc;
    snprintf(what, sizeof(what), "order %s", self->verb);
    if (n != 1 || parse_i64(word, 1, INT64_MAX, &id) < 0) {
        ctl_complain("%s: wants the ID of an order", what);
        return CTL_USAGE;
    }
    struct orders *orders = ctl_orders(c);
    struct ctx ctx = ctl_ctx();
    rc = orders->ops->find_order(orders, &ctx, id, order);
    if (rc == 0)
        return -1;
    if (rc > 0)
        ctl_complain("%s: there is no order %lld", what, (long long)id);
    else
        ctl_orders_failed(what, rc);
    return CTL_FAILED;
}

static void put(struct out *o, const struct orders_order *order)
{
    out_record(o);
    out_id(o, "order_id", order->order_id);
    out_str(o, "status", str_of(order->status));
    out_i64(o, "activity_id", order->item.activity_id);
    out_i64(o, "sku_id", order->item.sku_id);
    out_i64(o, "user_id", order->user_id);
    out_uuid(o, "request_id", &order->request_id);
    out_uuid(o, "reservation_id", &order->reservation_id);
    out_time(o, "created_at", order->created_at_ms);
    out_time(o, "updated_at", order->updated_at_ms);
}

/* --- show --- */

static const struct args_option show_options[] = {ARGS_JSON(struct order_args, json)};

static int run_show(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct order_args a = {0};
    struct orders_order order;
    int rc = load(c, self, argc, argv, &a, &order);
    if (rc >= 0)
        return rc;
    struct out o;
    out_begin(&o, a.json, false);
    put(&o, &order);
    return out_end(&o) ? CTL_OK : CTL_UNKNOWN;
}

const struct ctl_command order_show_command = {
    .group = "order",
    .verb = "show",
    .options = show_options,
    .n_options = sizeof(show_options) / sizeof(show_options[0]),
    .words = "ID",
    .help = "one order, from PostgreSQL\n",
    .run = run_show,
};

/* --- cancel ---
 *
 * The buyer's cancel command by another hand: the same message_id (rule 27), so that both are one
 * command, whoever comes first, and the same function with all its rules. It does not go through
 * the queue: an operator hears what came of it. */

#define WHAT "order cancel"

static const struct args_option cancel_options[] = {ARGS_YES(struct order_args, yes),
                                                    ARGS_JSON(struct order_args, json)};

static enum action_outcome outcome_of(const struct orders_command *cmd)
{
    switch (cmd->outcome) {
    case ORDERS_CANCELLED:
        return cmd->fresh ? ACTION_DONE : ACTION_NOTHING;
    case ORDERS_ALREADY:
    case ORDERS_NOTHING:
        return ACTION_NOTHING;
    case ORDERS_REFUSED:
    case ORDERS_COMMAND_QUARANTINED:
        return ACTION_REFUSED;
    default: /* PARKED, AGAIN: another transaction has the order in hand; the first is kept */
        return ACTION_UNKNOWN;
    }
}

static int64_t epoch_of(struct ctl *c, struct item item)
{
    struct orders *orders = ctl_orders(c);
    struct ctx ctx = ctl_ctx();
    struct orders_inventory inventory = {0};
    orders->ops->inventory(orders, &ctx, item, &inventory);
    return inventory.epoch;
}

/* rc of the port. */
static int cancel(struct ctl *c, const struct orders_order *order, struct orders_command *cmd)
{
    char mem[EVENT_MAX_BYTES];
    struct strbuf body;
    struct event e = {.message_id = event_cancel_id(&order->reservation_id),
                      .request_id = order->request_id,
                      .reservation_id = order->reservation_id,
                      .item = order->item,
                      .user_id = order->user_id,
                      .order_id = order->order_id,
                      .created_at_us = order->created_at_ms * 1000,
                      .schema_version = EVENT_SCHEMA_COMMAND,
                      .version = {epoch_of(c, order->item), 0},
                      .traceparent = STR(""),
                      .tracestate = STR(""),
                      .command = EVENT_CANCEL};
    strbuf_init_fixed(&body, mem, sizeof(mem));
    event_encode(&e, false, &body);
    *cmd = (struct orders_command){.message_id = e.message_id,
                                   .request_id = e.request_id,
                                   .reservation_id = e.reservation_id,
                                   .user_id = e.user_id,
                                   .order_id = e.order_id,
                                   .body = strbuf_str(&body)};
    struct orders *orders = ctl_orders(c);
    struct ctx ctx = ctl_ctx();
    int rc = orders->ops->cancel(orders, &ctx, order->item, cmd, 1, false);
    if (rc == 0 && cmd->outbox_id) {
        struct verdict verdict = verdict_of_reason(REASON_CANCELLED);
        struct stock_settle_row row = {.user_id = order->user_id,
                                       .request_id = order->request_id,
                                       .reservation_id = cmd->settle_reservation_id,
                                       .verdict = verdict,
                                       .give_back = verdict_returns_unit(verdict)};
        books_settle(c, WHAT, order->item, &row, cmd->outbox_id);
    }
    return rc;
}

static enum action_outcome planned(const struct orders_order *order, const char **why)
{
    struct str status = str_of(order->status);
    *why = "";
    if (str_eq(status, STR("CREATED")) || str_eq(status, STR("PAYING")))
        return ACTION_PLANNED;
    *why = order->status;
    return str_eq(status, STR("PAID")) ? ACTION_REFUSED : ACTION_NOTHING;
}

static int run_cancel(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct order_args a = {0};
    struct orders_order order;
    struct orders_command cmd = {0};
    struct action action;
    char detail[256];
    const char *why;
    int rc = load(c, self, argc, argv, &a, &order);
    if (rc >= 0)
        return rc;
    snprintf(detail, sizeof(detail), "{\"order_id\":\"%lld\",\"user_id\":%lld,\"was\":\"%s\"}",
             (long long)order.order_id, (long long)order.user_id, order.status);
    rc = action_begin(&action, c, a.yes, WHAT, order.item, str_of(detail));
    if (rc != CTL_OK)
        return rc;
    enum action_outcome outcome = planned(&order, &why);
    int failed = 0;
    if (action.acting) {
        failed = cancel(c, &order, &cmd);
        outcome = failed < 0 ? action_outcome_of(failed) : outcome_of(&cmd);
        why = failed < 0 ? err_name(failed) : cmd.reason;
        if (failed < 0)
            ctl_orders_failed(WHAT, failed);
    }
    snprintf(detail, sizeof(detail), "{\"why\":\"%s\"}", why);
    rc = action_end(&action, outcome, str_of(detail));
    struct ctx ctx = ctl_ctx();
    struct orders *orders = ctl_orders(c);
    if (action.acting && failed == 0)
        orders->ops->find_order(orders, &ctx, order.order_id, &order); /* as it is now */
    struct out o;
    out_begin(&o, a.json, false);
    put(&o, &order);
    out_str(&o, "why", str_of(why));
    action_print(&o, outcome);
    return out_end(&o) ? rc : CTL_UNKNOWN;
}

const struct ctl_command order_cancel_command = {
    .group = "order",
    .verb = "cancel",
    .options = cancel_options,
    .n_options = sizeof(cancel_options) / sizeof(cancel_options[0]),
    .words = "ID",
    .help =
        "cancels an unpaid order; its unit is on sale again at once\n"
        "The buyer's cancel by another hand: PAID stays (rule 27), what is over stays over. Shows "
        "what it would do;\n--yes does it and records it (actions list).\n",
    .run = run_cancel,
};
