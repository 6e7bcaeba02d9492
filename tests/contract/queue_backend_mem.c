#include "queue_backend.h"

#include "adapter/mem/mem_queue.h"
#include "backend_sched.h"

const int64_t backend_lease_us = 10000000;
const bool backend_virtual = true;
#ifdef QUEUE_BACKEND_ONE
#define ONE true
#define DEAD_AFTER QUEUE_BACKEND_ONE
#else
#define ONE false
#define DEAD_AFTER 0
#endif
const struct backend_traits backend_traits = {
    .ordered = true,
    .per_item = !ONE,
    .locates = !ONE,
    .sees_others = !ONE,
    .tells_stale = true,
    .dead_after = DEAD_AFTER,
    .latency_us = 20000,
};

static struct mem_broker *broker;
static int64_t next_sku;
static int alive; /* consumers */

void backend_start(void)
{
    sched_init(&backend_sched, MEM_CLOCK_START_US);
    broker = mem_broker_new(&(struct mem_broker_config){.sched = &backend_sched,
                                                        .lease_us = backend_lease_us,
                                                        .shared = ONE,
                                                        .dead_after = DEAD_AFTER});
}

void backend_stop(void)
{
    if (alive) { /* a failed test: its operations lived on a stack that is gone, so nothing is freed
                  */
        alive = 0;
        return;
    }
    mem_broker_free(broker);
    sched_deinit(&backend_sched);
}

struct item backend_item(void)
{
    return (struct item){1, ++next_sku};
}

struct queue *backend_consumer(const char *name, int max_in_hand)
{
    alive++;
    return mem_queue_new(broker, name, max_in_hand);
}

void backend_kill(struct queue *q)
{
    mem_queue_free(q);
    alive--;
}

void backend_append(struct item item, struct str body, char *queue_id)
{
    mem_broker_append(broker, item, body, queue_id);
}
