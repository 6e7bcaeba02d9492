/* What the files of the queue's contract share. */
#pragma once

#include "queue_client.h"

#define LEASE backend_lease_us
#define SHORT (LEASE / 8)
#define SLACK backend_traits.redelivery_slack_us
#define REDELIVERY (3 * LEASE + SLACK) /* within this an ended lease is found */
#define TRAIT(t) (backend_traits.t)

static inline struct queue *consumer(const char *name, const struct item *items, int n)
{
    struct queue *q = backend_consumer(name, 256);
    q->ops->set_items(q, items, n);
    return q;
}

static inline struct item told(struct item item)
{
    return TRAIT(per_item) ? item : (struct item){0, 0};
}

/* At once; where the figures are gathered from elsewhere, soon. */
static inline void assert_backlog(struct queue *q, struct item item, int64_t waiting,
                                  int64_t in_hand, struct queue_lag *lag)
{
    for (int64_t until = backend_now_us() + SLACK;; client_rest(20 * MS)) {
        assert_int_equal(client_lag(q, item, lag), 0);
        assert_int_equal(lag->of_all_items, !TRAIT(per_item));
        if ((lag->waiting == waiting && lag->in_hand == in_hand) || backend_now_us() >= until)
            break;
    }
    assert_int_equal(lag->waiting, waiting);
    assert_int_equal(lag->in_hand, in_hand);
}

static inline void assert_empty(struct queue *q, struct item item)
{
    struct queue_lag lag;
    assert_backlog(q, item, 0, 0, &lag);
    assert_int_equal(lag.oldest_age_ms, 0);
}

/* queue_contract_more.c */
void lag_and_age(void **state);
void canceled(void **state);
void freed_with_messages_in_hand(void **state);
void items_change_while_receiving(void **state);
void a_busy_item_does_not_starve_another(void **state);
void idle_latency(void **state);
void never_dead_by_giving_back(void **state);
void the_dead_are_published_again(void **state);
void chaos(void **state);
