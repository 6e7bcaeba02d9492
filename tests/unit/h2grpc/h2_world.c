#include "h2_world.h"

#include "base/metric.h"

#define LABELS "link=\"test\""

struct loop *loop;
struct h2_server server;
struct h2grpc *channel;

struct metric *of_link(const char *gauge)
{
    return metric_gauge(gauge, "", LABELS);
}

struct metric *of_link_total(const char *counter)
{
    return metric_counter(counter, "", LABELS);
}

int set_up(void **state)
{
    (void)state;
    loop = loop_new();
    h2_server_start(&server, loop);
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    h2grpc_free(channel);
    channel = NULL;
    h2_server_stop(&server);
    loop_free(loop);
    assert_int_equal(metric_value(of_link("seckill_grpc_connections")), 0);
    assert_int_equal(metric_value(of_link("seckill_grpc_pending_calls")), 0);
    return 0;
}

void begin_with(struct h2grpc_config c)
{
    char err[128] = "";
    if (!c.target)
        c.target = server.target;
    c.metric_link = "test";
    if (!c.backoff_min_us) {
        c.backoff_min_us = 1 * MS;
        c.backoff_max_us = 5 * MS;
    }
    channel = h2grpc_new(loop, &c, err, sizeof err);
    assert_string_equal(err, "");
}

void begin(void)
{
    begin_with((struct h2grpc_config){0});
}
