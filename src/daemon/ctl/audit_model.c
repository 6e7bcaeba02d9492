#include "daemon/ctl/audit_model.h"

#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

static uint32_t hash_request(int64_t user, const struct uuid *key)
{
    uint64_t lo, hi;
    memcpy(&lo, key->b, 8);
    memcpy(&hi, key->b + 8, 8);
    return (uint32_t)(hash_mix64((uint64_t)user ^ hash_mix64(lo ^ hash_mix64(hi))) >> 32);
}

static uint32_t hash_order(int64_t order_id)
{
    return (uint32_t)(hash_mix64((uint64_t)order_id) >> 32);
}

/* Room for n entries and as much again empty. */
static bool table_resize(struct audit_table *t, uint32_t n)
{
    uint32_t cap = 1024;
    while (cap < UINT32_C(1) << 31 && cap / 2 < n)
        cap *= 2;
    free(t->slots);
    t->slots = calloc(cap, sizeof(t->slots[0]));
    t->cap = t->slots ? cap : 0;
    return t->slots != NULL;
}

static void table_put(struct audit_table *t, uint32_t hash, uint32_t index)
{
    uint32_t at = hash & (t->cap - 1);
    while (t->slots[at])
        at = (at + 1) & (t->cap - 1);
    t->slots[at] = index + 1;
}

/* One more element of an array: its place, zeroed; NULL: no memory. */
static void *grow(struct audit_model *m, void **array, uint32_t *n, uint32_t *cap, size_t size)
{
    if (*n == *cap) {
        uint32_t wanted = *cap ? *cap * 2 : 1024;
        void *bigger = *cap >= AUDIT_REQUESTS_MAX ? NULL : realloc(*array, (size_t)wanted * size);
        if (!bigger) {
            m->full = true;
            return NULL;
        }
        *array = bigger;
        *cap = wanted;
    }
    return memset((char *)*array + (size_t)(*n)++ * size, 0, size);
}

void audit_model_clear_stores(struct audit_model *m)
{
    m->n_stored = m->n_extras = 0;
    for (uint32_t i = 0; i < m->n_requests; i++)
        m->requests[i].stored = AUDIT_NONE;
    free(m->by_order.slots);
    m->by_order = (struct audit_table){NULL, 0};
}

void audit_model_deinit(struct audit_model *m)
{
    free(m->requests);
    free(m->stored);
    free(m->told);
    free(m->extras);
    free(m->by_request.slots);
    free(m->by_order.slots);
    memset(m, 0, sizeof(*m));
}

static struct audit_request *find(const struct audit_model *m, uint32_t hash, int64_t user,
                                  const struct uuid *key)
{
    const struct audit_table *t = &m->by_request;
    for (uint32_t at = hash & (t->cap - 1); t->cap && t->slots[at]; at = (at + 1) & (t->cap - 1)) {
        struct audit_request *r = &m->requests[t->slots[at] - 1];
        if (r->user == user && uuid_eq(&r->key, key))
            return r;
    }
    return NULL;
}

struct audit_request *audit_request(struct audit_model *m, int64_t user, const struct uuid *key)
{
    uint32_t hash = hash_request(user, key);
    struct audit_request *r = find(m, hash, user, key);
    if (r)
        return r;
    void *array = m->requests;
    r = grow(m, &array, &m->n_requests, &m->cap_requests, sizeof(*r));
    m->requests = array;
    if (!r)
        return NULL;
    r->user = user;
    r->key = *key;
    r->stored = r->told = AUDIT_NONE;
    struct audit_table *t = &m->by_request;
    if (t->cap / 2 >= m->n_requests) {
        table_put(t, hash, m->n_requests - 1);
        return r;
    }
    if (!table_resize(t, m->n_requests)) {
        m->full = true;
        return NULL;
    }
    for (uint32_t i = 0; i < m->n_requests; i++)
        table_put(t, hash_request(m->requests[i].user, &m->requests[i].key), i);
    return r;
}

struct audit_stored *audit_stored(struct audit_model *m, int64_t user, const struct uuid *key)
{
    struct audit_request *r = audit_request(m, user, key);
    if (!r)
        return NULL;
    if (r->stored != AUDIT_NONE)
        return &m->stored[r->stored];
    void *array = m->stored;
    struct audit_stored *s = grow(m, &array, &m->n_stored, &m->cap_stored, sizeof(*s));
    m->stored = array;
    if (!s)
        return NULL;
    s->request = (uint32_t)(r - m->requests);
    r->stored = m->n_stored - 1;
    return s;
}

struct audit_told *audit_told(struct audit_model *m, struct audit_request *r)
{
    if (r->told != AUDIT_NONE)
        return &m->told[r->told];
    void *array = m->told;
    struct audit_told *t = grow(m, &array, &m->n_told, &m->cap_told, sizeof(*t));
    m->told = array;
    if (!t)
        return NULL;
    t->request = (uint32_t)(r - m->requests);
    r->told = m->n_told - 1;
    return t;
}

struct audit_stored *audit_find_stored(struct audit_model *m, int64_t user, const struct uuid *key)
{
    struct audit_request *r = find(m, hash_request(user, key), user, key);
    return r && r->stored != AUDIT_NONE ? &m->stored[r->stored] : NULL;
}

void audit_add_extra(struct audit_model *m, const struct audit_stored *s,
                     const struct uuid *reservation)
{
    void *array = m->extras;
    struct audit_extra *x = grow(m, &array, &m->n_extras, &m->cap_extras, sizeof(*x));
    m->extras = array;
    if (x)
        *x = (struct audit_extra){(uint32_t)(s - m->stored), *reservation};
}

bool audit_has_reservation(const struct audit_model *m, const struct audit_stored *s,
                           const struct uuid *reservation)
{
    if (s->record && uuid_eq(&s->record_reservation, reservation))
        return true;
    if (s->order && uuid_eq(&s->order_reservation, reservation))
        return true;
    if (s->inbox && uuid_eq(&s->inbox_reservation, reservation))
        return true;
    for (uint32_t i = 0; i < m->n_extras; i++) {
        if (m->extras[i].stored == (uint32_t)(s - m->stored) &&
            uuid_eq(&m->extras[i].reservation, reservation))
            return true;
    }
    return false;
}

void audit_index_orders(struct audit_model *m)
{
    if (!table_resize(&m->by_order, 2 * m->n_stored)) {
        m->full = true;
        return;
    }
    for (uint32_t i = 0; i < m->n_stored; i++) {
        const struct audit_stored *s = &m->stored[i];
        if (s->order)
            table_put(&m->by_order, hash_order(s->order_id), i);
        if (s->record && !(s->order && s->order_id == s->record_order_id))
            table_put(&m->by_order, hash_order(s->record_order_id), i);
    }
}

bool audit_user_has_order(const struct audit_model *m, int64_t user, int64_t order_id)
{
    const struct audit_table *t = &m->by_order;
    for (uint32_t at = hash_order(order_id) & (t->cap - 1); t->cap && t->slots[at];
         at = (at + 1) & (t->cap - 1)) {
        const struct audit_stored *s = &m->stored[t->slots[at] - 1];
        bool is =
            (s->order && s->order_id == order_id) || (s->record && s->record_order_id == order_id);
        if (is && m->requests[s->request].user == user)
            return true;
    }
    return false;
}
