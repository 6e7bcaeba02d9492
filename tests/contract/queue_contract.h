/* What the files of the queue's contract share. */
#pragma once

#include "queue_client.h"

#define LEASE backend_lease_us
#define SHORT (LEASE / 8)

static inline struct queue *consumer(const char *name, const struct item *items, int n)
{
    struct queue *q = backend_consumer(name, 256);
    q->ops->set_items(q, items, n);
    return q;
}

static inline void assert_empty(struct queue *q, struct item item)
{
    struct queue_lag lag;
    assert_int_equal(client_lag(q, item, &lag), 0);
    assert_int_equal(lag.waiting, 0);
    assert_int_equal(lag.in_hand, 0);
    assert_int_equal(lag.oldest_age_ms, 0);
}

/* queue_contract_more.c */
void lag_and_age(void **state);
void canceled(void **state);
void freed_with_messages_in_hand(void **state);
void items_change_while_receiving(void **state);
void a_busy_item_does_not_starve_another(void **state);
void idle_latency(void **state);
void chaos(void **state);
