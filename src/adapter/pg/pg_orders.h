/* The port's operations, by kind; put together in pg_orders.c. Contracts: port/orders.h. */
#pragma once

#include "adapter/pg/pg_conn.h"
#include "base/list.h"

struct pg_orders {
    struct orders port;
    struct pg_conn conn;
};
static inline struct pg_conn *pg_orders_conn(struct orders *o)
{
    return &container_of(o, struct pg_orders, port)->conn;
}

/* pg_place.c */
int pg_place(struct orders *o, const struct ctx *ctx, struct item item, struct orders_row *rows,
             int n, struct orders_timing *timing);
int pg_probe(struct orders *o, const struct ctx *ctx);

/* pg_commands.c */
int pg_cancel_orders(struct orders *o, const struct ctx *ctx, struct item item,
                     struct orders_command *rows, int n, bool give_up);
int pg_pay_orders(struct orders *o, const struct ctx *ctx, struct item item,
                  struct orders_command *rows, int n, bool give_up);
int pg_park(struct orders *o, const struct ctx *ctx, struct item item, enum event_command kind,
            const struct orders_command *rows, int *n);
int pg_parked(struct orders *o, const struct ctx *ctx, int64_t give_up_ms,
              struct orders_parked *rows, int *n);
int pg_parked_failed(struct orders *o, const struct ctx *ctx, const struct uuid *message_ids, int n,
                     const char *error_kind, int max_attempts, int *quarantined);
int pg_expire(struct orders *o, const struct ctx *ctx, struct item item, int64_t created_before_ms,
              int64_t pay_within_ms, struct orders_unsettled *rows, int *n);

/* pg_outbox.c */
int pg_mark_settled(struct orders *o, const struct ctx *ctx, const int64_t *outbox_ids, int n,
                    bool tell);
/* The outbox rows of an answer with these columns into rows[], at most max of them; those that
 * cannot be read are left out, and counted. */
#define PG_OUTBOX_COLUMNS                                                                          \
    "outbox_id, activity_id, sku_id, user_id, request_id, reservation_id, state, reason, "         \
    "give_back, other_order_id, other_reservation_id, other_request_id"
#define PG_OUTBOX_KINDS "qqqquuttbquu"
int pg_outbox_rows(const PGresult *r, struct orders_unsettled *rows, int max, int *n);
int pg_unsettled(struct orders *o, const struct ctx *ctx, int64_t min_age_ms,
                 struct orders_unsettled *rows, int *n);
int pg_unpublished(struct orders *o, const struct ctx *ctx, int64_t claim_ms, struct result *rows,
                   int *n);
int pg_mark_published(struct orders *o, const struct ctx *ctx, const int64_t *outbox_ids, int n);
int pg_unpublished_backlog(struct orders *o, const struct ctx *ctx, int max,
                           struct orders_unpublished *backlog);

/* pg_retention.c */
int pg_retain(struct orders *o, const struct ctx *ctx, const struct orders_retention *what,
              struct orders_retained *taken);

/* pg_inbox.c */
int pg_inbox(struct orders *o, const struct ctx *ctx, const struct uuid *message_ids,
             struct orders_inbox *rows, int n);
int pg_void_message(struct orders *o, const struct ctx *ctx, struct item item,
                    const struct orders_row *message, enum verdict_reason reason,
                    struct orders_inbox *row);
int pg_quarantine(struct orders *o, const struct ctx *ctx, const struct orders_dead_letter *letters,
                  int n, bool *settled);

/* pg_attempts.c */
int pg_count_attempts(struct orders *o, const struct ctx *ctx, const struct uuid *message_ids,
                      const char *error_kind, int *counts, int n);
int pg_attempts(struct orders *o, const struct ctx *ctx, const struct uuid *message_ids,
                int *counts, int n);
int pg_suspect_begin(struct orders *o, const struct ctx *ctx, const struct uuid *message_id,
                     struct str life, int *dead_alone);
int pg_suspect_clear(struct orders *o, const struct ctx *ctx, const struct uuid *message_ids, int n,
                     struct str life);
int pg_beat(struct orders *o, const struct ctx *ctx, struct str life, int64_t age_ms,
            int64_t *fleet_age_ms);

/* pg_find.c */
int pg_find_request(struct orders *o, const struct ctx *ctx, struct item item, int64_t user_id,
                    const struct uuid *request_id, struct orders_inbox *row,
                    struct orders_order *order);
int pg_find_order(struct orders *o, const struct ctx *ctx, int64_t order_id,
                  struct orders_order *order);
int pg_inventory(struct orders *o, const struct ctx *ctx, struct item item,
                 struct orders_inventory *inv);
int pg_warmed(struct orders *o, const struct ctx *ctx, struct item *items, int *n);

/* pg_reconcile.c */
int pg_reconcile_begin(struct orders *o, const struct ctx *ctx, struct item item, struct str life,
                       int64_t lease_ms, struct orders_books *books);
int pg_reconcile_asked(struct orders *o, const struct ctx *ctx, struct str life, int64_t lease_ms,
                       struct item *item);
int pg_reconcile_look(struct orders *o, const struct ctx *ctx, struct orders_look *rows, int n);
int pg_reconcile_orders(struct orders *o, const struct ctx *ctx, struct item item,
                        int64_t after_user, struct orders_active *rows, int *n);
int pg_reconcile_end(struct orders *o, const struct ctx *ctx, struct str life,
                     const struct orders_reconciled *end);
/* pg_rebuild.c */
int pg_watch(struct orders *o, const struct ctx *ctx, struct orders_watched *rows, int *n);
int pg_rebuild_take(struct orders *o, const struct ctx *ctx, struct item item, int64_t from_epoch,
                    struct str life, struct str reason, int64_t max_hold_ms,
                    struct orders_rebuild *out);
int pg_rebuild_keep(struct orders *o, const struct ctx *ctx, struct item item, int64_t epoch,
                    const struct orders_hold *rows, int n);
int pg_rebuild_count(struct orders *o, const struct ctx *ctx, struct item item, int64_t epoch,
                     struct orders_held *held);
int pg_rebuild_page(struct orders *o, const struct ctx *ctx, struct item item, int64_t epoch,
                    const struct uuid *after, struct orders_hold *rows, int *n);
int pg_rebuild_resettle(struct orders *o, const struct ctx *ctx, struct item item, int64_t epoch,
                        int64_t *from);
int pg_rebuild_finish(struct orders *o, const struct ctx *ctx, struct item item, int64_t epoch);
