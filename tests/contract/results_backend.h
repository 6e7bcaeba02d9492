/* What the results' contract suite needs from the thing it runs on: results_backend_mem.c, _redis.c
 * or _rocketmq.c. */
#pragma once

#include "backend_time.h"
#include "port/results.h"
#include <stdbool.h>

void backend_start(void);
void backend_stop(void);
struct results *backend_results(void);
struct item backend_item(void); /* one nobody used yet */
/* Waits until n bodies of the item, of this test, can be read: in any order, zero-terminated,
 * borrowed until the next call. Fewer after some seconds: what there is. */
int backend_read(struct item item, int n, const char **bodies, int max);
/* The service is gone until backend_up. */
void backend_down(void);
void backend_up(void);
