#include "conformance_model.h"

#include "queue_client.h"
#include <stdlib.h>

static struct model_event *event_of(struct model *m, const struct event *e)
{
    int number = (int)e->order_id;
    assert_in_range(number, 1, m->n);
    /* The inbox's key: every repeat carries it. */
    struct event sent = client_event(model_item(m, number), number);
    assert_true(uuid_eq(&sent.message_id, &e->message_id));
    assert_true(item_eq(sent.item, e->item));
    return &m->events[number];
}

static bool ended(const struct model_event *e)
{
    return e->effects > 0 || e->quarantined;
}

void model_init(struct model *m, struct item *items, int n_items, int n, uint64_t seed)
{
    *m = (struct model){.items = items, .n_items = n_items, .n = n, .n_raw = n / 200};
    m->events = calloc((size_t)n + 1, sizeof m->events[0]);
    m->raw = calloc((size_t)m->n_raw + 1, sizeof m->raw[0]);
    assert_true(m->events && m->raw);
    m->undelivered = n;
    m->unended = n + m->n_raw;
    rng_init_seed(&m->rng, seed);
    for (int i = 1; i <= n; i++) {
        uint32_t fate = rng_below(&m->rng, 100);
        m->events[i].fails = fate == 0;
        m->events[i].slow = fate == 1 || fate == 2;
    }
}

void model_deinit(struct model *m)
{
    free(m->events);
    free(m->raw);
}

struct item model_item(const struct model *m, int number)
{
    return m->items[number % m->n_items];
}

/* Storing fails now and then: then it is not acknowledged. */
static bool stores(struct model *m)
{
    return m->healed || rng_below(&m->rng, 10) > 0;
}

static enum model_does bury_raw(struct model *m, const struct queue_message *q)
{
    int number = -1;
    char text[32];
    str_copy(text, sizeof text, q->body);
    assert_int_equal(sscanf(text, "no event %d", &number), 1);
    assert_in_range(number, 0, m->n_raw - 1);
    if (!stores(m))
        return MODEL_LATER;
    m->unended -= !m->raw[number];
    m->raw_again += m->raw[number];
    m->raw[number] = true;
    return MODEL_ACK;
}

static enum model_does bury(struct model *m, struct model_event *e)
{
    if (!stores(m))
        return MODEL_LATER;
    e->quarantined = true;
    m->unended--;
    return MODEL_ACK;
}

static void place(struct model *m, struct model_event *e)
{
    if (ended(e))
        return;
    e->effects++;
    m->unended--;
}

/* The event of a message; NULL: it is none. */
static struct model_event *read_event(struct model *m, const struct queue_message *q)
{
    struct event decoded;
    const char *why;
    return event_decode(q->body, &decoded, &why) < 0 ? NULL : event_of(m, &decoded);
}

void model_saw(struct model *m, const struct queue_message *q)
{
    struct model_event *e = read_event(m, q);
    m->dead += q->dead;
    if (!e)
        return;
    m->undelivered -= e->deliveries == 0;
    m->duplicates += e->deliveries > 0;
    e->deliveries++;
}

enum model_does model_take(struct model *m, const struct queue_message *q)
{
    struct model_event *e = read_event(m, q);
    if (!e)
        return bury_raw(m, q);
    if (ended(e))
        return MODEL_ACK;
    if (e->fails && e->attempts >= MODEL_MAX_ATTEMPTS)
        return bury(m, e);
    if (q->dead) /* rule 22: what the broker gave up had its chance only if it failed by itself */
        return MODEL_LATER;
    if (e->fails)
        return ++e->attempts < MODEL_MAX_ATTEMPTS ? MODEL_LATER : bury(m, e);
    if (e->slow && !m->healed)
        return MODEL_HOLD;
    place(m, e);
    return MODEL_ACK;
}

void model_end(struct model *m, const struct queue_message *q)
{
    struct model_event *e = read_event(m, q);
    assert_non_null(e);
    place(m, e);
}

int64_t model_oldest_undelivered_us(struct model *m, struct item item, bool any_item)
{
    while (m->delivered_to < m->n && m->events[m->delivered_to + 1].deliveries > 0)
        m->delivered_to++;
    /* Publishing begins by number. */
    for (int i = m->delivered_to + 1; i <= m->n && m->events[i].published_us; i++) {
        const struct model_event *e = &m->events[i];
        if (e->accepted && e->deliveries == 0 && (any_item || item_eq(model_item(m, i), item)))
            return e->published_us;
    }
    return INT64_MAX;
}

void model_assert(const struct model *m)
{
    for (int i = 1; i <= m->n; i++) {
        const struct model_event *e = &m->events[i];
        if (e->deliveries < 1 || e->effects != !e->fails || e->quarantined != e->fails ||
            e->attempts != (e->fails ? MODEL_MAX_ATTEMPTS : 0))
            fail_msg("event %d (%s): %d deliveries, %d effects, %d own failures, %s", i,
                     e->fails ? "fails by itself" : "good", e->deliveries, e->effects, e->attempts,
                     e->quarantined ? "a dead letter" : "no dead letter");
    }
    for (int i = 0; i < m->n_raw; i++) {
        if (!m->raw[i])
            fail_msg("body %d, which is no event, is no dead letter", i);
    }
}
