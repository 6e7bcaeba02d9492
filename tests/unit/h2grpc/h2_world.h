/* What most tests of the client need: a loop, a server on it, a channel to that. Made and ended
 * around each test. */
#pragma once

#include "h2_server.h"

#define PATH "/test.Service/Method"

extern struct loop *loop;
extern struct h2_server server;
extern struct h2grpc *channel; /* the test's: begin; NULL before */

int set_up(void **state);
int tear_down(void **state); /* and nothing is left of what the metrics count */
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* The server as target unless c says another; back after a loss within 5 ms. */
void begin_with(struct h2grpc_config c);
void begin(void);
struct metric *of_link(const char *gauge);
struct metric *of_link_total(const char *counter);
