/* What the tests of the gRPC client share: a loop that is turned until something holds, and calls
 * that note what came. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "adapter/h2grpc/h2grpc.h"

#include <cmocka.h>

#define MS INT64_C(1000)
#define SECONDS INT64_C(1000000)

/* Turns the loop until the expression holds; fails the test after 60 s. */
#define UNTIL(l, condition)                                                                        \
    do {                                                                                           \
        int64_t until_end_ = until_begin();                                                        \
        while (!(condition)) {                                                                     \
            if (!until_turn(l, until_end_))                                                        \
                fail_msg("never became true: %s", #condition);                                     \
        }                                                                                          \
    } while (0)
int64_t until_begin(void);
bool until_turn(struct loop *l, int64_t end_us);
int64_t in(int64_t us); /* so far from now */

struct test_call {
    struct h2grpc_call call;
    int ends, messages;
    struct h2grpc_end end; /* its message points to text */
    char text[512];
    unsigned char last[4096]; /* the last message, its first bytes */
    size_t last_n, bytes;     /* its length; that of all */
    void (*on_message)(struct test_call *t);
    void (*then)(struct test_call *t);
    struct h2grpc *channel;
    int again; /* started again from on_end so often */
};
void test_call_init(struct test_call *t, const char *path, struct str request, int64_t deadline_us);
/* Starts it and turns the loop to its end. */
int test_call_run(struct loop *l, struct h2grpc *ch, struct test_call *t);
/* The same with a deadline that comes: again, where the machine stood still before it was sent. */
int test_call_expire(struct loop *l, struct h2grpc *ch, struct test_call *t, int64_t us);
