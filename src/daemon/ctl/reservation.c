/* seckillctl reservation show|release: one held unit, as all sides have it. */
#include "base/err.h"
#include "daemon/ctl/action.h"
#include "daemon/ctl/books.h"
#include "daemon/ctl/ctl_queue.h"
#include <stdio.h>

struct reservation_args {
    struct item item;
    int64_t user;
    struct str request;
    bool json, yes;
};
#define OPTIONS                                                                                    \
    ARGS_ITEM(struct reservation_args, item),                                                      \
        {"user",                                                                                   \
         ARGS_I64,                                                                                 \
         offsetof(struct reservation_args, user),                                                  \
         .required = true,                                                                         \
         1,                                                                                        \
         INT64_MAX,                                                                                \
         .help = "the buyer's id"},                                                                \
        {"request", ARGS_TEXT, offsetof(struct reservation_args, request), .required = true,       \
         .help = "the request's id: its Idempotency-Key"},                                         \
        ARGS_JSON(struct reservation_args, json)

struct found {
    struct item item;
    struct uuid request_id;
    struct reservation r; /* of Redis */
    bool held;            /* there is a record */
    int64_t now_ms;       /* of Redis */
    struct orders_inbox inbox;
    struct orders_order order;
};

/* What the stores say now. 0; else complained: the exit status. */
static int look(struct ctl *c, const char *what, int64_t user, struct found *f)
{
    struct stock *stock = ctl_stock(c);
    if (!stock)
        return CTL_FAILED;
    struct stock_lookup lookup = {.item = f->item, .user_id = user, .request_id = f->request_id};
    ctl_op(c, &lookup.op, CTL_CALL_US);
    stock->ops->lookup(stock, &lookup);
    int rc = ctl_await(c);
    if (rc < 0)
        return ctl_stock_failed(c, what, rc);
    f->held = rc == 0;
    f->r = lookup.found;
    f->now_ms = lookup.now_ms;
    struct orders *orders = ctl_orders(c);
    struct ctx ctx = ctl_ctx();
    rc = orders->ops->find_request(orders, &ctx, f->item, user, &f->request_id, &f->inbox,
                                   &f->order);
    /* Of several messages of one key the record's own counts. */
    if (rc >= 0 && f->held)
        rc = orders->ops->inbox(orders, &ctx, &f->r.message_id, &f->inbox, 1);
    return rc < 0 ? ctl_orders_failed(what, rc) : 0;
}

/* -1 with what the stores say; else the exit status. */
static int load(struct ctl *c, const struct ctl_command *self, int argc, char **argv,
                struct reservation_args *a, struct found *f)
{
    char what[32];
    int rc = ctl_args(self, a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    snprintf(what, sizeof(what), "reservation %s", self->verb);
    *f = (struct found){.item = a->item};
    if (uuid_parse(a->request, &f->request_id) < 0) {
        ctl_complain("%s: --request is a UUID", what);
        return CTL_USAGE;
    }
    rc = look(c, what, a->user, f);
    return rc == 0 ? -1 : rc;
}

static void put(struct out *o, const struct reservation_args *a, const struct found *f)
{
    bool settled = f->inbox.found;
    out_record(o);
    out_i64(o, "activity_id", f->item.activity_id);
    out_i64(o, "sku_id", f->item.sku_id);
    out_i64(o, "user_id", a->user);
    out_uuid(o, "request_id", &f->request_id);
    out_uuid(o, "reservation_id", f->held ? &f->r.reservation_id : NULL);
    out_uuid(o, "message_id", f->held ? &f->r.message_id : settled ? &f->inbox.message_id : NULL);
    out_time(o, "created_at", f->held ? f->r.created_at_ms : -1);
    out_str(o, "redis_status", f->held ? reservation_status_name(f->r.status) : STR(""));
    out_str(o, "redis_state", f->held ? verdict_state_name(f->r.verdict.state) : STR(""));
    out_str(o, "redis_reason", f->held ? verdict_reason_name(f->r.verdict.reason) : STR(""));
    out_i64(o, "republished", f->r.republished);
    out_str(o, "inbox_status", settled ? str_of(f->inbox.status) : STR(""));
    out_str(o, "inbox_state", settled ? verdict_state_name(f->inbox.verdict.state) : STR(""));
    out_str(o, "inbox_reason", settled ? verdict_reason_name(f->inbox.verdict.reason) : STR(""));
    out_id(o, "order_id", f->order.order_id);
    out_str(o, "order_status", str_of(f->order.status));
}

/* --- show --- */

static const struct args_option show_options[] = {OPTIONS};

static int run_show(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct reservation_args a = {0};
    struct found f;
    int rc = load(c, self, argc, argv, &a, &f);
    if (rc >= 0)
        return rc;
    if (!f.held && !f.inbox.found && !f.order.order_id) {
        ctl_complain("reservation show: neither Redis nor PostgreSQL knows this request");
        return CTL_FAILED;
    }
    struct out o;
    out_begin(&o, a.json, false);
    put(&o, &a, &f);
    return out_end(&o) ? CTL_OK : CTL_UNKNOWN;
}

const struct ctl_command reservation_show_command = {
    .group = "reservation",
    .verb = "show",
    .options = show_options,
    .n_options = sizeof(show_options) / sizeof(show_options[0]),
    .words = "",
    .help = "one reservation, as Redis and PostgreSQL have it\n",
    .run = run_show,
};

/* --- release ---
 *
 * What recovery does at the end, by hand: the message is voided in the inbox (rule 25), which an
 * order of it excludes and is excluded by; only then Redis gives the unit back. An operator may
 * decide it before `max_hold`, but not while the queue still has the message (rule 30): it would be
 * taken from a buyer whose turn comes.
 *
 *   the inbox says            then
 *   nothing                   void, unless the queue has it or that is not known
 *   QUARANTINED               void (GIVEN_UP): nobody replayed it
 *   REJECTED                  Redis has not heard it: told again
 *   COMPLETED                 refused: there is an order (order cancel) */

#define WHAT "reservation release"
#define AGE_SLACK_MS 1000 /* as recovery's: a message is younger than its reservation */

static const struct args_option release_options[] = {OPTIONS,
                                                     ARGS_YES(struct reservation_args, yes)};

/* Whether the queue is known to have passed it; what there is against it in *why. */
static bool passed(struct ctl *c, const struct found *f, const char **why)
{
    struct queue *queue = ctl_queue(c, EVENT_QUEUE_INSPECT);
    int64_t age_ms = f->now_ms - f->r.created_at_ms;
    *why = "NOT_KNOWN"; /* rule 31 */
    if (!queue)
        return false;
    if (f->r.queue_id[0]) {
        struct queue_locate locate = {.item = f->item};
        memcpy(locate.queue_id, f->r.queue_id, sizeof(locate.queue_id));
        ctl_op(c, &locate.op, CTL_CALL_US);
        queue->ops->locate(queue, &locate);
        int position = ctl_await(c);
        *why = position < 0 ? "NOT_KNOWN" : position == QUEUE_PASSED ? "" : "IN_QUEUE";
        if (position >= 0)
            return position == QUEUE_PASSED;
    }
    /* Judged by age. What a dead worker held is not among the backlog until it comes back: so here
     * it also has to be as old as recovery would want it. */
    struct queue_lag lag = {.item = f->item};
    ctl_op(c, &lag.op, CTL_CALL_US);
    queue->ops->lag(queue, &lag);
    if (ctl_await(c) != 0)
        return false;
    bool empty = lag.waiting + lag.in_hand == 0;
    *why = "IN_QUEUE";
    if (!empty && lag.oldest_age_ms + AGE_SLACK_MS >= age_ms)
        return false;
    *why = "YOUNGER_THAN_MAX_HOLD";
    return age_ms >= c->settings.worker.max_hold_us / 1000;
}

static bool is(const struct orders_inbox *inbox, const char *status)
{
    return inbox->found && strcmp(inbox->status, status) == 0;
}

static enum action_outcome planned(struct ctl *c, const struct found *f, const char **why)
{
    *why = "";
    if (!f->held) {
        *why = "NO_RECORD";
        return ACTION_NOTHING;
    }
    if (is(&f->inbox, "COMPLETED") || is(&f->inbox, ORDERS_UNREADABLE)) {
        *why = f->inbox.status;
        return ACTION_REFUSED;
    }
    if (f->r.status == RESERVATION_RELEASED) {
        *why = "RELEASED";
        return ACTION_NOTHING;
    }
    if (f->r.status == RESERVATION_ORDERED && !f->inbox.found) {
        *why = "ORDERED"; /* and PostgreSQL has lost it: reconciliation's, not a release */
        return ACTION_REFUSED;
    }
    if (f->inbox.found || passed(c, f, why))
        return ACTION_PLANNED;
    return ACTION_REFUSED;
}

/* Voids, or finds out how it was settled; then tells Redis. */
static enum action_outcome release(struct ctl *c, const struct found *f, const char **why)
{
    enum verdict_reason reason =
        is(&f->inbox, "QUARANTINED") ? REASON_GIVEN_UP : REASON_VOID; /* rule 25 */
    struct orders *orders = ctl_orders(c);
    struct ctx ctx = ctl_ctx();
    struct orders_row message = {.message_id = f->r.message_id,
                                 .request_id = f->r.request_id,
                                 .reservation_id = f->r.reservation_id,
                                 .user_id = f->r.user_id,
                                 .order_id = f->r.order_id};
    struct orders_inbox row = {0};
    int rc = orders->ops->void_message(orders, &ctx, f->item, &message, reason, &row);
    if (rc < 0) {
        ctl_orders_failed(WHAT, rc);
        *why = err_name(rc);
        return action_outcome_of(rc);
    }
    struct verdict verdict = rc == 0 ? verdict_of_reason(reason) : row.verdict;
    struct stock_settle_row settle = {.user_id = f->r.user_id,
                                      .request_id = f->r.request_id,
                                      .reservation_id = f->r.reservation_id,
                                      .verdict = verdict,
                                      .give_back =
                                          rc == 0 ? verdict_returns_unit(verdict) : row.give_back,
                                      .other_order_id = row.other_order_id,
                                      .other_reservation_id = row.other_reservation_id,
                                      .other_request_id = row.other_request_id};
    books_settle(c, WHAT, f->item, &settle, 0);
    if (rc == 0 || is(&row, "REJECTED"))
        return ACTION_DONE;
    *why = "COMPLETED"; /* it was ordered in this moment */
    return ACTION_REFUSED;
}

static int run_release(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct reservation_args a = {0};
    struct found f;
    struct action action;
    char detail[256];
    const char *why;
    int rc = load(c, self, argc, argv, &a, &f);
    if (rc >= 0)
        return rc;
    enum action_outcome outcome = planned(c, &f, &why);
    snprintf(detail, sizeof(detail),
             "{\"user_id\":%lld,\"request_id\":\"%s\",\"reservation_id\":\"%s\"}",
             (long long)a.user, uuid_text(&f.request_id).z, uuid_text(&f.r.reservation_id).z);
    rc = action_begin(&action, c, a.yes, WHAT, a.item, str_of(detail));
    if (rc != CTL_OK)
        return rc;
    if (action.acting && outcome == ACTION_PLANNED)
        outcome = release(c, &f, &why);
    snprintf(detail, sizeof(detail), "{\"why\":\"%s\"}", why);
    rc = action_end(&action, outcome, str_of(detail));
    if (outcome != ACTION_PLANNED && look(c, WHAT, a.user, &f) != 0) /* as it is now */
        return rc == CTL_OK ? CTL_FAILED : rc;
    struct out o;
    out_begin(&o, a.json, false);
    put(&o, &a, &f);
    out_str(&o, "why", str_of(why));
    action_print(&o, outcome);
    return out_end(&o) ? rc : CTL_UNKNOWN;
}

const struct ctl_command reservation_release_command = {
    .group = "reservation",
    .verb = "release",
    .options = release_options,
    .n_options = sizeof(release_options) / sizeof(release_options[0]),
    .words = "",
    .help =
        "gives up a reservation that became no order; its unit is on sale again\n"
        "Its message is voided in PostgreSQL (rule 25), so that it can never become one; the buyer "
        "sees FAILED. Refused\nwhile the queue has the message, or while that is not known (rule "
        "30), and when there is an order (order cancel).\nShows what it would do; --yes does it "
        "and records it (actions list).\n",
    .run = run_release,
};
