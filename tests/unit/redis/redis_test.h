/* What the tests of the connection and of the stock adapter share: a loop that is turned until
 * something holds, calls that note their end, and a scripted server on the same loop. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "adapter/redis/redis.h"
#include "adapter/redis/reply.h"

#include <cmocka.h>

#define MS INT64_C(1000)
#define SECONDS INT64_C(1000000)

/* Turns the loop until the expression holds; fails the test after 10 s. */
#define UNTIL(l, condition)                                                                        \
    do {                                                                                           \
        int64_t until_end_ = until_begin(l);                                                       \
        while (!(condition)) {                                                                     \
            if (!until_turn(l, until_end_))                                                        \
                fail_msg("never became true: %s", #condition);                                     \
        }                                                                                          \
    } while (0)
int64_t until_begin(struct loop *l);
bool until_turn(struct loop *l, int64_t end_us);

/* A plain command of up to 8 words, or a script. */
struct test_call {
    struct redis_call call;
    struct str words[8];
    int ends; /* how often on_reply came */
    int rc;
    enum redis_type type;
    int64_t i;
    char text[256]; /* string, status or error */
    void (*then)(struct test_call *t);
};
void test_call_init(struct test_call *t, int64_t deadline_us, const char *const *words);
#define CALL(t, deadline_us, ...)                                                                  \
    test_call_init(t, deadline_us, (const char *const[]){__VA_ARGS__, NULL})
void test_script_init(struct test_call *t, int64_t deadline_us, const struct redis_script *s,
                      int keys, const char *const *words);

/* --- a server that does what the test says --- */
struct fake_conn {
    struct loop_io io;
    struct fake *fake;
    struct reply_reader reader;
    bool open;
};
struct fake {
    struct loop *loop;
    struct loop_io io;
    char dir[64], url[128], path[108];
    int port; /* of 127.0.0.1; 0: a unix socket */
    struct fake_conn conns[16];
    int accepted, commands; /* commands but TIME and SCRIPT LOAD */
    int loads;
    /* Answers a command (not TIME, not SCRIPT LOAD); may say nothing. NULL: +OK. */
    void (*on_command)(struct fake *f, struct fake_conn *c, const struct redis_reply *command);
    void *data;
};
void fake_start(struct fake *f, struct loop *l);
void fake_start_tcp(struct fake *f, struct loop *l);
void fake_stop(struct fake *f);
void fake_say(struct fake_conn *c, const char *bytes);
void fake_close(struct fake_conn *c);
