/* What only streams on several servers have: one that does not answer keeps only its own waiting.
 */
#include "queue_backend_redis.h"
#include "queue_client.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

static int port_of_slot(long long slot)
{
    redisReply *r = private_redis_command(&backend_redis, "CLUSTER SLOTS");
    int port = 0;
    for (size_t i = 0; i < r->elements; i++) {
        redisReply *const *range = r->element[i]->element;
        if (range[0]->integer <= slot && slot <= range[1]->integer)
            port = (int)range[2]->element[1]->integer;
    }
    freeReplyObject(r);
    assert_true(port > 0);
    return port;
}

/* Of the master that has the key. */
static int port_of(const char *key)
{
    return port_of_slot(private_redis_int(&backend_redis, "CLUSTER KEYSLOT %s", key));
}

/* It takes commands and answers none. */
static void pause_server(int port, int ms)
{
    redisContext *c = redisConnect("127.0.0.1", port);
    assert_true(c && !c->err);
    redisReply *r = redisCommand(c, "CLIENT PAUSE %d ALL", ms);
    assert_true(r && r->type == REDIS_REPLY_STATUS);
    freeReplyObject(r);
    redisFree(c);
}

static void a_silent_server(void **state)
{
    (void)state;
    char key[72];
    struct hand h = {0};
    backend_start();
    struct item items[2] = {backend_item(), backend_item()};
    int silent;
    /* The one that our own commands are sent to first must answer: it has slot 0. */
    int first = port_of_slot(0);
    while ((silent = port_of(backend_key(items[0], key))) == first)
        items[0] = backend_item();
    while (port_of(backend_key(items[1], key)) == silent)
        items[1] = backend_item();
    struct queue *q = backend_consumer("a", 64);
    q->ops->set_items(q, items, 2);
    for (int i = 0; i < 2; i++)
        client_append(items[i], i, NULL);
    while (h.n < 2)
        assert_int_equal(client_receive(q, &h, 16, backend_lease_us), 0);
    assert_int_equal(client_ack(q, &h), 2);
    client_release(q, &h);

    pause_server(silent, 1800);
    assert_int_equal(client_receive(q, &h, 16, 100 * MS), 0);
    assert_int_equal(h.n, 0); /* its fetch is under way, for a second */
    for (int i = 2; i < 6; i++) {
        client_append(items[1], i, NULL);
        assert_int_equal(client_receive(q, &h, 16, 600 * MS), 0);
        assert_int_equal(h.n, i - 1);
    }
    assert_int_equal(client_ack(q, &h), 4);
    client_release(q, &h);
    client_append(items[0], 6, NULL); /* waits for the end of the pause */
    for (int i = 0; h.n == 0 && i < 20; i++)
        assert_int_equal(client_receive(q, &h, 16, backend_lease_us), 0);
    assert_int_equal(h.n, 1);
    assert_int_equal(client_number(h.m[0]), 6);
    assert_int_equal(client_ack(q, &h), 1);
    client_release(q, &h);
    backend_kill(q);
    backend_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_silent_server)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
