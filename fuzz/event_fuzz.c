/* Whatever arrives as an event: refused with a reason, or it survives being written and read again.
 */
#include "base/panic.h"
#include "core/event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const struct event *a, const struct event *b)
{
    return uuid_eq(&a->message_id, &b->message_id) && uuid_eq(&a->request_id, &b->request_id) &&
           uuid_eq(&a->reservation_id, &b->reservation_id) && item_eq(a->item, b->item) &&
           a->user_id == b->user_id && a->order_id == b->order_id &&
           a->created_at_us == b->created_at_us && a->schema_version == b->schema_version &&
           a->retry_count == b->retry_count && item_version_cmp(a->version, b->version) == 0 &&
           str_eq(a->traceparent, b->traceparent) && str_eq(a->tracestate, b->tracestate) &&
           a->command == b->command && str_eq(a->payment_id, b->payment_id) &&
           a->accepted_at_ms == b->accepted_at_ms;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct event e, again;
    const char *why = NULL;
    int rc = event_decode((struct str){(const char *)data, size}, &e, &why);
    if (rc) {
        if (!why)
            panic("refused without a reason");
        return 0;
    }
    if (e.user_id <= 0 || e.order_id <= 0 || e.item.activity_id <= 0 || e.item.sku_id <= 0 ||
        e.retry_count < 0 || e.version.epoch < 0 || e.version.seq < 0 || e.created_at_us < 0)
        panic("accepted what is out of bounds");
    if (e.command != EVENT_CREATE && e.schema_version < EVENT_SCHEMA_COMMAND)
        panic("accepted a command that an old reader would make an order of");
    if ((e.command == EVENT_PAY) != event_payment_id_ok(e.payment_id))
        panic("a payment without an id, or an id without a payment");
    char mem[EVENT_MAX_BYTES];
    struct strbuf body;
    strbuf_init_fixed(&body, mem, sizeof mem);
    event_encode(&e, false, &body);
    if (body.failed)
        panic("an event is larger than its bound");
    if (event_decode(strbuf_str(&body), &again, &why))
        panic("our own event is refused: %s", why);
    if (!same(&e, &again))
        panic("an event came back different");
    return 0;
}
