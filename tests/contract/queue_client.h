/* The queue port's operations as the suites use them: each waits for its completion. */
#pragma once

#include "base/err.h"
#include "queue_backend.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000
#define HAND_MAX 512

/* An operation and whether it is over. */
struct waiter {
    bool done;
    int rc;
};

/* Messages in hand of one consumer. */
struct hand {
    struct queue_message *m[HAND_MAX];
    int n;
};

struct pending_receive {
    struct queue_receive r;
    struct waiter w;
    struct queue *q;
};

struct event client_event(struct item item,
                          int64_t number); /* order_id = number; ids of their own */
int client_publish(struct queue *q, struct item item, int64_t number, char queue_id[32]);
void client_append(struct item item, int64_t number, char queue_id[32]);
int64_t client_number(const struct queue_message *m); /* -1: not decodable */

void client_receive_start(struct pending_receive *p, struct queue *q, int max, int64_t wait_us);
/* Waits for its end and appends what came to h. The rc. */
int client_receive_end(struct pending_receive *p, struct hand *h);
int client_receive(struct queue *q, struct hand *h, int max, int64_t wait_us);
/* All messages of h; the number that took effect, or the error. */
int client_ack(struct queue *q, struct hand *h);
int client_extend(struct queue *q, struct hand *h);
int client_retry_later(struct queue *q, struct hand *h, int64_t delay_us);
void client_release(struct queue *q, struct hand *h);
int client_locate(struct queue *q, struct item item, const char *queue_id);
int client_lag(struct queue *q, struct item item, struct queue_lag *lag);
void client_rest(int64_t us); /* lets time pass */
