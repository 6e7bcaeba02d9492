/* What the queue's contract suite needs from the thing it runs on: the fake on a virtual clock, or
 * a private Redis on a real loop. One of queue_backend_mem.c and queue_backend_redis.c is linked.
 */
#pragma once

#include "port/queue.h"
#include <stdbool.h>

extern const int64_t backend_lease_us;
extern const bool backend_virtual; /* time is exact */

void backend_start(void);
void backend_stop(void);
int64_t backend_now_us(void);
/* An item nobody used yet, whose stream is there. */
struct item backend_item(void);
struct queue *backend_consumer(const char *name, int max_in_hand);
/* Its process dies: no goodbye. Messages in hand go with it. */
void backend_kill(struct queue *q);
/* As the reserve script does it: at once, past every port. queue_id: 32 bytes or NULL. */
void backend_append(struct item item, struct str body, char *queue_id);
/* Runs until *flag or for at most `us`. Whether it was set. */
bool backend_run(const bool *flag, int64_t us);
/* A flag was set: backend_run may return. */
void backend_wake(void);
