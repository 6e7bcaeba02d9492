/* A message in hand, made of what a proxy sent. Whatever is wrong with a message that can be held,
 * the caller gets it: so that it ends in dead_letters, not in silence. */
#include "adapter/rocketmq/inner.h"

#include "base/err.h"
#include "base/log.h"
#include <openssl/evp.h>
#include <stdlib.h>
#include <strings.h>

/* --- digests --- */
static uint32_t crc32_of(const unsigned char *p, size_t n)
{
    uint32_t crc = 0xffffffff;
    while (n--) {
        crc ^= *p++;
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

bool rmq_digest_fits(const Rmq__Digest *d, const void *body, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    unsigned char sum[EVP_MAX_MD_SIZE];
    char hex[2 * EVP_MAX_MD_SIZE + 1];
    unsigned len = 4;
    if (!d || !d->has_type || !d->checksum)
        return true;
    if (d->type == RMQ__DIGEST_TYPE__CRC32) {
        uint32_t crc = crc32_of(body, n);
        for (int i = 0; i < 4; i++)
            sum[i] = (unsigned char)(crc >> (24 - 8 * i));
    } else if (d->type == RMQ__DIGEST_TYPE__MD5 || d->type == RMQ__DIGEST_TYPE__SHA1) {
        if (!EVP_Digest(body, n, sum, &len,
                        d->type == RMQ__DIGEST_TYPE__MD5 ? EVP_md5() : EVP_sha1(), NULL))
            return true; /* this library has none: nothing is known against the body */
    } else {
        return true;
    }
    for (unsigned i = 0; i < len; i++) { /* by hand: snprintf was a tenth of receiving */
        hex[2 * i] = digits[sum[i] >> 4];
        hex[2 * i + 1] = digits[sum[i] & 15];
    }
    hex[2 * len] = '\0';
    return strcasecmp(hex, d->checksum) == 0;
}

/* --- slots --- */
int rmq_slots_init(struct rmq_consumer *c, int n)
{
    c->n_slots = n > 0 ? n : 1;
    c->slots = calloc((size_t)c->n_slots, sizeof *c->slots);
    if (!c->slots)
        return ERR_OVERLOAD;
    list_init(&c->free_slots);
    for (int i = 0; i < c->n_slots; i++) {
        list_init(&c->slots[i].steps);
        list_push_back(&c->free_slots, &c->slots[i].free_link);
    }
    c->n_free = c->n_slots;
    return 0;
}

void rmq_slots_deinit(struct rmq_consumer *c)
{
    metric_gauge_add(c->m.in_hand, c->n_free - c->n_slots);
    free(c->slots);
}

/* A copy that lives as long as the message is in hand. NULL: no room, so it cannot be published
 * again as it was. */
static const char *keep(struct rmq_slot *slot, const char *z)
{
    size_t n = strlen(z) + 1;
    if (n > sizeof slot->text - slot->text_used) {
        slot->altered = true;
        return NULL;
    }
    char *copy = memcpy(slot->text + slot->text_used, z, n);
    slot->text_used += n;
    return copy;
}

/* Ours come along when it is published again; what the server added is its own to add. */
static void keep_property(struct rmq_slot *slot, const Rmq__Property *p)
{
    struct rmq_message *r = &slot->again;
    if (!p->key || !p->value ||
        (strcmp(p->key, RMQ_PROPERTY_TRACE) != 0 && strncmp(p->key, "sk_", 3) != 0))
        return;
    if (r->n_properties == RMQ_PROPERTIES_MAX) {
        slot->altered = true;
        return;
    }
    r->properties[r->n_properties++] =
        (struct rmq_property){keep(slot, p->key), keep(slot, p->value)};
}

static void keep_for_again(struct rmq_slot *slot, const Rmq__Message *message)
{
    const Rmq__SystemProperties *sp = message->system_properties;
    struct rmq_message *r = &slot->again;
    *r = (struct rmq_message){.message_id = slot->m.id};
    slot->text_used = 0;
    r->tag = sp->tag ? keep(slot, sp->tag) : NULL;
    r->trace_context = sp->trace_context ? keep(slot, sp->trace_context) : NULL;
    for (size_t i = 0; i < sp->n_keys; i++) {
        if (r->n_keys == RMQ_KEYS_MAX)
            slot->altered = true;
        else
            r->keys[r->n_keys++] = keep(slot, sp->keys[i]);
    }
    for (size_t i = 0; i < message->n_user_properties; i++)
        keep_property(slot, message->user_properties[i]);
}

static void keep_body(struct rmq_slot *slot, const Rmq__Message *message)
{
    static const struct str mark = {"body fails its digest: ", 23};
    const struct rmq_consumer *c = slot->from->source->c;
    const Rmq__SystemProperties *sp = message->system_properties;
    struct str body = {(const char *)message->body.data, message->has_body ? message->body.len : 0};
    struct strbuf b;
    strbuf_init_fixed(&b, slot->body, sizeof slot->body);
    if (!rmq_digest_fits(sp->body_digest, body.ptr ? body.ptr : "", body.len)) {
        /* Damaged, it may still be JSON: it must not be taken for an order. */
        metric_add(c->m.damaged, 1);
        slot->altered = true;
        strbuf_add_str(&b, mark);
    }
    if (body.len > sizeof slot->body - b.len) {
        metric_add(c->m.cut, 1);
        slot->altered = true;
        body.len = sizeof slot->body - b.len;
    }
    strbuf_add_str(&b, body);
    slot->m.body = strbuf_str(&b);
    /* An encoded body is kept as it came: we never send any, so it is undecodable. */
    if (sp->has_body_encoding && sp->body_encoding == RMQ__ENCODING__GZIP)
        slot->altered = true;
}

static void fill(struct rmq_slot *slot, const Rmq__Message *message, int64_t lease_until_us)
{
    const Rmq__SystemProperties *sp = message->system_properties;
    struct rmq_consumer *c = slot->from->source->c;
    slot->hold = RMQ_HELD;
    slot->received_us = rmq_consumer_now(c);
    slot->altered = slot->released = false;
    slot->m = (struct queue_message){
        .deliveries =
            sp->has_delivery_attempt && sp->delivery_attempt > 0 ? sp->delivery_attempt : 1,
        .enqueued_ms = rmq_timestamp_ms(sp->store_timestamp),
        .lease_until_us = lease_until_us,
        .dead = slot->from->source->dead,
    };
    if (!str_copy(slot->m.id, sizeof slot->m.id, str_of(sp->message_id ? sp->message_id : "")) ||
        slot->m.id[0] == '\0')
        slot->altered = true;
    keep_for_again(slot, message);
    keep_body(slot, message);
    if (slot->m.deliveries > 1)
        metric_add(c->m.redelivered, 1);
}

struct rmq_slot *rmq_slot_take(struct rmq_outlet *o, const Rmq__Message *message,
                               int64_t lease_until_us)
{
    static struct log_limit limit;
    struct rmq_consumer *c = o->source->c;
    const Rmq__SystemProperties *sp = message->system_properties;
    uint64_t more;
    if (!sp || !sp->receipt_handle || !sp->receipt_handle[0] ||
        strlen(sp->receipt_handle) >= RMQ_HANDLE_MAX) {
        metric_add(c->m.damaged, 1);
        if (log_allowed(&limit, rmq_consumer_now(c), &more))
            log_error("a message without a usable receipt handle is left to its lease",
                      LOG_Z("broker_message_id", sp && sp->message_id ? sp->message_id : ""),
                      LOG_I("suppressed", (int64_t)more));
        return NULL;
    }
    struct list *l = list_pop_front(&c->free_slots);
    if (!l)
        return NULL;
    struct rmq_slot *slot = container_of(l, struct rmq_slot, free_link);
    c->n_free--;
    metric_gauge_add(c->m.in_hand, 1);
    slot->from = o;
    o->slots++;
    memcpy(slot->handle, sp->receipt_handle, strlen(sp->receipt_handle) + 1);
    fill(slot, message, lease_until_us);
    return slot;
}

void rmq_slot_lose(struct rmq_slot *slot)
{
    int64_t now = rmq_consumer_now(slot->from->source->c);
    slot->hold = RMQ_LOST;
    if (slot->m.lease_until_us > now)
        slot->m.lease_until_us = now;
    metric_add(slot->from->source->c->m.lease_lost, 1);
}

void rmq_slot_free(struct rmq_slot *slot)
{
    struct rmq_consumer *c = slot->from->source->c;
    slot->released = true;
    if (!list_empty(&slot->steps))
        return; /* its last step's end comes back here */
    slot->from->slots--;
    list_push_back(&c->free_slots, &slot->free_link);
    c->n_free++;
    metric_gauge_add(c->m.in_hand, -1);
    if (!list_empty(&c->receives))
        rmq_receive_pump_later(c);
    rmq_consumer_moved(c);
}
