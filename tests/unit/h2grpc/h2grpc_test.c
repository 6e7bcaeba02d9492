#include "h2grpc_test.h"

#include "base/clock.h"

struct turn {
    struct timer timer;
    struct loop *loop;
};

static void on_turn(struct timer *t)
{
    loop_stop(container_of(t, struct turn, timer)->loop);
}

int64_t in(int64_t us)
{
    return clock_mono_us() + us;
}

int64_t until_begin(void)
{
    return in(60 * SECONDS);
}

bool until_turn(struct loop *l, int64_t end_us)
{
    struct turn t = {.timer = {.on_fire = on_turn}, .loop = l};
    sched_set(loop_sched(l), &t.timer, clock_mono_us() + 200);
    loop_run(l);
    sched_clear(loop_sched(l), &t.timer);
    return clock_mono_us() < end_us;
}

static void on_message(struct h2grpc_call *c, struct str message)
{
    struct test_call *t = container_of(c, struct test_call, call);
    assert_int_equal(t->ends, 0);
    t->messages++;
    t->last_n = message.len;
    t->bytes += message.len;
    size_t n = message.len < sizeof t->last ? message.len : sizeof t->last;
    if (n)
        memcpy(t->last, message.ptr, n);
    if (t->on_message)
        t->on_message(t);
}

static void on_end(struct h2grpc_call *c, const struct h2grpc_end *end)
{
    struct test_call *t = container_of(c, struct test_call, call);
    t->ends++;
    t->end = *end;
    str_copy(t->text, sizeof t->text, end->message);
    t->end.message = str_of(t->text);
    if (t->then)
        t->then(t);
}

void test_call_init(struct test_call *t, const char *path, struct str request, int64_t deadline_us)
{
    *t = (struct test_call){0};
    t->call.path = path;
    t->call.request = request;
    t->call.deadline_us = deadline_us;
    t->call.on_message = on_message;
    t->call.on_end = on_end;
}

int test_call_run(struct loop *l, struct h2grpc *ch, struct test_call *t)
{
    h2grpc_start(ch, &t->call);
    assert_int_equal(t->ends, 0); /* never inside */
    UNTIL(l, t->ends);
    assert_int_equal(t->ends, 1);
    return t->end.rc;
}

int test_call_expire(struct loop *l, struct h2grpc *ch, struct test_call *t, int64_t us)
{
    do {
        t->ends = 0;
        t->call.deadline_us = in(us);
    } while (test_call_run(l, ch, t) == ERR_DEADLINE && t->call.sent_us == 0);
    return t->end.rc;
}
