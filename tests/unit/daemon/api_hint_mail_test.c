/* Mail between loops: order, merging, bounds, and two threads at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/api/hint_mail.h"
#include <stdatomic.h>

static struct hint_mailbox box;
static struct hint_mail got[4096];
static int n_got, stop_after;

static void on_mail(struct hint_mailbox *m, const struct hint_mail *mail)
{
    got[n_got++ % 4096] = *mail;
    if (mail->kind == HINT_MAIL_SET)
        hint_set_unref(mail->set);
    if (n_got == stop_after || mail->version.epoch == 99)
        loop_stop(m->loop);
}

static int setup(void **state)
{
    (void)state;
    n_got = stop_after = 0;
    box.loop = loop_new();
    box.on_mail = on_mail;
    hint_mailbox_init(&box);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hint_mailbox_close(&box);
    loop_free(box.loop);
    hint_mailbox_deinit(&box);
    return 0;
}

static void put(enum hint_mail_kind kind, int64_t item, int64_t seq)
{
    struct hint_mail m = {.kind = kind, .item = {item, 1}, .version = {1, seq}};
    if (kind == HINT_MAIL_SET)
        m.set = hint_set_new(m.item, m.version, 1);
    hint_mailbox_put(&box, &m);
}

static void receive(int n)
{
    stop_after = n;
    loop_run(box.loop);
    assert_int_equal(n_got, n);
}

static void test_in_order_and_merged(void **state)
{
    (void)state;
    put(HINT_MAIL_NEWS, 1, 5);
    put(HINT_MAIL_NEWS, 2, 5);
    put(HINT_MAIL_NEWS, 1, 7);
    put(HINT_MAIL_NEWS, 1, 6);
    put(HINT_MAIL_SET, 1, 7);
    put(HINT_MAIL_SOLD_OUT, 1, 7);
    receive(4);
    assert_int_equal(got[0].version.seq, 7); /* the newest of the item's */
    assert_int_equal(got[1].item.activity_id, 2);
    assert_int_equal(got[2].kind, HINT_MAIL_SET);
    assert_int_equal(got[3].kind, HINT_MAIL_SOLD_OUT);
}

static void test_off_comes_first_and_clears(void **state)
{
    (void)state;
    put(HINT_MAIL_SET, 1, 5);
    put(HINT_MAIL_NEWS, 1, 5);
    put(HINT_MAIL_OFF, 0, 0);
    put(HINT_MAIL_NEWS, 2, 6);
    receive(2);
    assert_int_equal(got[0].kind, HINT_MAIL_OFF);
    assert_int_equal(got[1].kind, HINT_MAIL_NEWS);
    assert_int_equal(got[1].item.activity_id, 2);
}

/* Full: questions and sets are dropped, lost news switch the hints off. */
static void test_bounded(void **state)
{
    (void)state;
    for (int i = 1; i <= 2 * HINT_MAIL_MAX; i++)
        put(HINT_MAIL_SOLD_OUT, i, 1);
    put(HINT_MAIL_SET, 1, 1);
    receive(HINT_MAIL_MAX);
    n_got = 0;
    for (int i = 1; i <= HINT_MAIL_MAX; i++)
        put(HINT_MAIL_NEWS, i, 1);
    put(HINT_MAIL_NEWS, HINT_MAIL_MAX + 1, 1);
    receive(1);
    assert_int_equal(got[0].kind, HINT_MAIL_OFF);
}

static void test_left_over_sets_are_dropped(void **state)
{
    (void)state;
    put(HINT_MAIL_SET, 1, 1); /* the leak check sees to it */
    put(HINT_MAIL_SET, 2, 1);
    hint_mailbox_close(&box);
    put(HINT_MAIL_SET, 3, 1);
}

static void *writer(void *arg)
{
    int64_t who = *(int64_t *)arg;
    for (int64_t i = 1; i <= 2000; i++)
        put(i % 3 ? HINT_MAIL_NEWS : HINT_MAIL_SET, who * 10 + i % 5, i);
    return NULL;
}

/* Whatever is merged or dropped, the newest version of each item arrives, or everything is off. */
static void test_two_threads(void **state)
{
    pthread_t t[2];
    int64_t who[2] = {1, 2};
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, writer, &who[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    hint_mailbox_put(&box, &(struct hint_mail){.kind = HINT_MAIL_SOLD_OUT, .version = {99, 0}});
    hint_mailbox_put(&box, &(struct hint_mail){.kind = HINT_MAIL_OFF});
    hint_mailbox_put(&box, &(struct hint_mail){.kind = HINT_MAIL_SOLD_OUT, .version = {99, 0}});
    loop_run(box.loop);
    assert_int_equal(got[0].kind, HINT_MAIL_OFF);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_in_order_and_merged),
        T(test_off_comes_first_and_clears),
        T(test_bounded),
        T(test_left_over_sets_are_dropped),
        T(test_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
