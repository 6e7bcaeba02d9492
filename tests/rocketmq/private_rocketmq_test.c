/* The private RocketMQ of C tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/private_rocketmq.h"

static struct private_rocketmq mq;

/* A start costs more than most tests: what the tests in Python show of the same script is for
 * scripts/test --full. */
static void only_with_full(void)
{
    if (!getenv("SECKILL_FULL"))
        skip();
}

static int start(void **state)
{
    (void)state;
    const char *options[] = {"--fast", "--topic", "one:NORMAL:1", NULL};
    private_rocketmq_start(&mq, options);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    private_rocketmq_stop(&mq);
    return 0;
}

/* How many messages were ever stored in TOPIC. */
static long stored(const char *topic)
{
    char words[128];
    snprintf(words, sizeof words, "consumerGroup=%s topic=%s", mq.group, topic);
    const char *answer = private_rocketmq_remoting(&mq, 208, words);
    if (!answer)
        return -1;
    long n = 0;
    while ((answer = strstr(answer, "\"brokerOffset\":"))) {
        answer += strlen("\"brokerOffset\":");
        n += atol(answer);
    }
    return n;
}

static void await_stored(const char *topic, long n)
{
    for (int i = 0; i < 500 && stored(topic) != n; i++)
        ;
    assert_int_equal(stored(topic), n);
}

static void confirmed_messages_outlive_the_broker(void **state)
{
    (void)state;
    only_with_full();
    for (int i = 0; i < 3; i++)
        private_rocketmq_send(&mq, "one", "body");
    await_stored("one", 3);
    private_rocketmq_kill(&mq);
    assert_null(private_rocketmq_remoting(&mq, 208, "consumerGroup=none topic=one"));
    private_rocketmq_again(&mq);
    await_stored("one", 3);
}

static void topics_and_groups_are_made_while_it_runs(void **state)
{
    (void)state;
    private_rocketmq_make_topic(&mq, "two:NORMAL:2");
    private_rocketmq_make_group(&mq, "two-g:3");
    private_rocketmq_send(&mq, "two", "body");
    await_stored("two", 1);
}

static void wiped_it_has_what_was_there_at_the_start(void **state)
{
    (void)state;
    only_with_full();
    private_rocketmq_wipe(&mq);
    await_stored("one", 0);
    assert_null(private_rocketmq_remoting(&mq, 303, "topic=two group=none")); /* no such topic */
    private_rocketmq_send(&mq, mq.topic, "body");
    await_stored(mq.topic, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(confirmed_messages_outlive_the_broker),
        cmocka_unit_test(topics_and_groups_are_made_while_it_runs),
        cmocka_unit_test(wiped_it_has_what_was_there_at_the_start),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
