#include "stock_test.h"

#include "base/clock.h"
#include <stdio.h>

struct private_redis server;
struct loop *loop;
struct stock *stock;
const struct item item = {1001, 2001};
int op_rc, op_ends;

static void on_done(struct op *op, int rc)
{
    (void)op;
    op_rc = rc;
    op_ends++;
}

void op_prepare(struct op *op)
{
    op->on_done = on_done;
    op->deadline_us = clock_mono_us() + 2 * SECONDS;
}

int op_wait(struct op *op)
{
    (void)op;
    int ends = op_ends;
    UNTIL(loop, op_ends > ends);
    return op_rc;
}

int stock_setup(void **state)
{
    (void)state;
    private_redis_text(&server, "FLUSHALL");
    char err[200];
    const struct redis_stock_config c = {.redis = {.url = server.url}, .stream_queue = true};
    stock = redis_stock_new(loop, &c, err, sizeof err);
    assert_non_null(stock);
    UNTIL(loop, redis_stock_ready(stock));
    return 0;
}

int stock_teardown(void **state)
{
    (void)state;
    redis_stock_free(stock);
    stock = NULL;
    return 0;
}

int stock_group_setup(void **state)
{
    (void)state;
    loop = loop_new();
    private_redis_start(&server, NULL);
    return 0;
}

int stock_group_teardown(void **state)
{
    (void)state;
    private_redis_stop(&server);
    loop_free(loop);
    return 0;
}

struct uuid an_id(int n)
{
    struct uuid u = {{0x01, 0x90, 0, 0, 0, 0, 0x70, 0, 0x80}};
    u.b[12] = (uint8_t)(n >> 24);
    u.b[13] = (uint8_t)(n >> 16);
    u.b[14] = (uint8_t)(n >> 8);
    u.b[15] = (uint8_t)n;
    return u;
}

void open_item(int64_t total)
{
    int64_t now = clock_wall_us() / 1000, hour = 3600000;
    struct stock_warm w = {.item = item,
                           .epoch = 1,
                           .total = total,
                           .starts_ms = now - hour,
                           .ends_ms = now + hour,
                           .expires_ms = now + 2 * hour};
    assert_int_equal(RUN(warm, &w), 0);
    struct stock_control o = {.item = item, .to = STOCK_STATE_OPEN};
    assert_int_equal(RUN(control, &o), 0);
}

struct stock_reserve reserve_of(int64_t user, int n)
{
    return (struct stock_reserve){
        .item = item,
        .user_id = user,
        .order_id = 1000000 + n,
        .request_id = an_id(n),
        .reservation_id = an_id(n + 1000000),
        .message_id = an_id(n + 2000000),
        .created_at_us = clock_wall_us(),
        .traceparent = STR("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        .tracestate = STR(""),
        .give_up_us = clock_mono_us() + SECONDS,
    };
}

int64_t free_units(void)
{
    return private_redis_int(&server, "GET sec:{1001:2001}:stock");
}
