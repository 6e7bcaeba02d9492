/* What the inbox says of messages, and the two ways to end one without an order: void and
 * quarantine. */
#include "adapter/pg/pg_metrics.h"
#include "adapter/pg/pg_orders.h"
#include "adapter/pg/pg_rows.h"
#include "base/clock.h"

int pg_inbox(struct orders *o, const struct ctx *ctx, const struct uuid *message_ids,
             struct orders_inbox *rows, int n)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_uuids(&a, message_ids, sizeof *message_ids, n);
    PG_RESULT r = NULL;
    int rc =
        pg_conn_query(c, ctx, PG_READS,
                      "SELECT ord, status, state, reason, order_id, give_back, other_order_id, "
                      "other_reservation_id, other_request_id FROM seckill_inbox($1)",
                      &a, "i" PG_INBOX_KINDS, &r);
    if (rc)
        return rc;
    for (int i = 0; i < n; i++)
        rows[i] = (struct orders_inbox){.message_id = message_ids[i]};
    for (int i = 0; i < PQntuples(r); i++) {
        int ord = pg_i32(r, i, 0);
        if (ord < 1 || ord > n)
            return ERR_INTERNAL;
        struct orders_inbox *row = &rows[ord - 1];
        if (pg_inbox_row(r, i, 1, &message_ids[ord - 1], row)) {
            pg_metrics_unreadable("consumer_inbox", pg_str(r, i, 2), pg_str(r, i, 3));
            *row = (struct orders_inbox){
                .found = true, .message_id = message_ids[ord - 1], .status = ORDERS_UNREADABLE};
        }
    }
    return 0;
}

int pg_void_message(struct orders *o, const struct ctx *ctx, struct item item,
                    const struct orders_row *message, enum verdict_reason reason,
                    struct orders_inbox *row)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, item.activity_id);
    pg_add_i64(&a, item.sku_id);
    pg_add_uuid(&a, &message->message_id);
    pg_add_uuid(&a, &message->request_id);
    pg_add_uuid(&a, &message->reservation_id);
    pg_add_i64(&a, message->user_id);
    pg_add_i64(&a, message->order_id);
    pg_add_text(&a, verdict_reason_name(reason));
    int64_t begin = clock_mono_us();
    PG_RESULT r = NULL;
    int rc = pg_conn_query(
        c, ctx, PG_WRITES,
        "SELECT voided, status, state, reason, order_id, give_back, other_order_id, "
        "other_reservation_id, other_request_id FROM seckill_void($1, $2, $3, $4, $5, $6, $7, $8)",
        &a, "b" PG_INBOX_KINDS, &r);
    if (rc == 0 && PQntuples(r) != 1)
        rc = ERR_INTERNAL;
    if (rc == 0)
        rc = pg_inbox_row(r, 0, 1, &message->message_id, row);
    if (rc == 0)
        rc = pg_bool(r, 0, 0) ? 0 : 1;
    pg_metrics_tx(rc, clock_mono_us() - begin);
    return rc;
}

int pg_quarantine(struct orders *o, const struct ctx *ctx, const struct orders_dead_letter *letters,
                  int n, bool *settled)
{
    struct pg_conn *c = pg_orders_conn(o);
    const size_t stride = sizeof *letters;
    struct str commands[ORDERS_LETTERS_MAX];
    for (int i = 0; i < n; i++)
        commands[i] = letters[i].command == EVENT_CREATE
                          ? STR("")
                          : str_of(event_command_name(letters[i].command));
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64s(&a, &letters->item.activity_id, stride, n);
    pg_add_i64s(&a, &letters->item.sku_id, stride, n);
    pg_add_uuids(&a, &letters->message_id, stride, n);
    pg_add_uuids(&a, &letters->request_id, stride, n);
    pg_add_uuids(&a, &letters->reservation_id, stride, n);
    pg_add_i64s(&a, &letters->user_id, stride, n);
    pg_add_i64s(&a, &letters->order_id, stride, n);
    pg_add_texts(&a, &letters->broker_id, stride, n);
    pg_add_byteas(&a, &letters->body, stride, n);
    pg_add_texts(&a, &letters->reason, stride, n);
    pg_add_i32s(&a, &letters->deliveries, stride, n);
    pg_add_texts(&a, commands, sizeof commands[0], n);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_WRITES,
                           "SELECT ord, stored FROM seckill_quarantine_all($1, $2, $3, $4, $5, $6, "
                           "$7, $8, $9, $10, $11, $12)",
                           &a, "ib", &r);
    if (rc)
        return rc;
    if (PQntuples(r) != n)
        return ERR_INTERNAL;
    for (int i = 0; i < n; i++) {
        int ord = pg_i32(r, i, 0);
        if (ord < 1 || ord > n)
            return ERR_INTERNAL;
        settled[ord - 1] = !pg_bool(r, i, 1);
    }
    return 0;
}
