#include "daemon/ctl/history.h"

#include "base/err.h"
#include "base/rng.h"
#include "unit.h"
#include <stdlib.h>
#include <string.h>

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/ctl-history-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 || close(fd) ? -1 : 0;
}
static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static struct history_event event_of(uint64_t seed)
{
    static const char *const codes[] = {"", "ACCEPTED", "SOLD_OUT", "DEPENDENCY_UNAVAILABLE"};
    struct rng rng;
    rng_init_seed(&rng, seed);
    struct history_event e = {.type = (enum history_type)rng_below(&rng, HISTORY_TYPES),
                              .t_us = (int64_t)(rng_u64(&rng) >> 1),
                              .user = 1 + (int64_t)(rng_u64(&rng) >> 2),
                              .item = {1 + (int64_t)rng_below(&rng, 99), 2001},
                              .status = rng_below(&rng, 2) ? 202 : 0};
    rng_fill(&rng, e.key.b, sizeof(e.key.b));
    if (e.status) {
        e.code = str_of(codes[rng_below(&rng, 4)]);
        e.order_id = (int64_t)(rng_u64(&rng) >> 1);
        e.has_reservation = true;
        rng_fill(&rng, e.reservation_id.b, sizeof(e.reservation_id.b));
        e.since_us = 1 + (int64_t)rng_below(&rng, 1000000);
        e.has_state = true;
        e.verdict = verdict_of_reason((enum verdict_reason)rng_below(&rng, REASONS));
    }
    return e;
}

/* What is written is read as the same, over several buffers. */
static void says_what_it_was_told(void **state)
{
    enum { N = 20000 };
    char err[128], *line = NULL;
    size_t cap = 0;
    (void)state;
    struct history *h = history_open(path, err, sizeof(err));
    assert_non_null(h);
    for (uint64_t i = 0; i < N; i++) {
        struct history_event e = event_of(i);
        history_add(h, &e);
    }
    assert_true(history_close(h));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (uint64_t i = 0; i < N; i++) {
        struct history_event want = event_of(i), e;
        const char *why = "";
        ssize_t n = getline(&line, &cap, f);
        assert_true(n > 0 && line[n - 1] == '\n');
        if (history_parse((struct str){line, (size_t)n - 1}, &e, &why) < 0)
            fail_msg("%s: %s", why, line);
        assert_true(e.type == want.type && e.t_us == want.t_us && e.user == want.user);
        assert_true(uuid_eq(&e.key, &want.key) && item_eq(e.item, want.item));
        assert_true(e.status == want.status && e.order_id == want.order_id);
        assert_true(str_eq(e.code, want.code));
        assert_true(e.has_reservation == want.has_reservation);
        assert_true(uuid_eq(&e.reservation_id, &want.reservation_id));
        assert_true(e.since_us == want.since_us && e.has_state == want.has_state);
        assert_true(e.verdict.state == want.verdict.state &&
                    e.verdict.reason == want.verdict.reason);
    }
    assert_true(getline(&line, &cap, f) < 0);
    free(line);
    fclose(f);
}

static void says_that_it_cannot(void **state)
{
    char err[128];
    (void)state;
    assert_null(history_open("/nowhere/at/all", err, sizeof(err)));
    assert_non_null(strstr(err, "/nowhere/at/all"));
    struct history *h = history_open("/dev/full", err, sizeof(err));
    struct history_event e = event_of(1);
    assert_non_null(h);
    history_add(h, &e);
    assert_false(history_flush(h));
    assert_false(history_close(h));
}

#define GOOD                                                                                       \
    "{\"t\":1,\"type\":\"invoke\",\"user\":7,\"key\":\"01a22d53-af66-7094-8fe0-bc69e4780bbc\","    \
    "\"activity\":1,\"sku\":2"

static void reads_others_lines(void **state)
{
    struct history_event e;
    const char *why;
    (void)state;
    assert_int_equal(
        history_parse(STR(" " GOOD ", \"order_id\" : null, \"more\":{\"x\":[1]}, \"code\":\"\" } "),
                      &e, &why),
        0);
    assert_int_equal(e.order_id, 0);
}

static void refuses_what_is_no_event(void **state)
{
    static const char *const lines[] = {
        "",
        "x",
        "[]",
        "{}",
        GOOD,
        GOOD "}}",
        GOOD ",\"t\":1}",
        GOOD ",\"status\":\"202\"}",
        GOOD ",\"status\":1000}",
        GOOD ",\"order_id\":7}",
        GOOD ",\"order_id\":\"0\"}",
        GOOD ",\"reservation_id\":\"x\"}",
        "{\"t\":1,\"type\":\"done\",\"user\":7,\"key\":\"01a22d53-af66-7094-8fe0-bc69e4780bbc\","
        "\"activity\":1,\"sku\":2}",
        "{\"t\":1,\"type\":\"ok\",\"user\":0,\"key\":\"01a22d53-af66-7094-8fe0-bc69e4780bbc\","
        "\"activity\":1,\"sku\":2}",
        "{\"t\":1,\"type\":\"ok\",\"user\":7,\"key\":\"01a22d53\",\"activity\":1,\"sku\":2}",
        "{\"t\":1,\"type\":\"ok\",\"user\":7,\"activity\":1,\"sku\":2}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct history_event e;
        const char *why = NULL;
        if (history_parse(str_of(lines[i]), &e, &why) != ERR_INVALID)
            fail_msg("taken: %s", lines[i]);
        assert_non_null(why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(says_what_it_was_told, make_path, remove_path),
        cmocka_unit_test(says_that_it_cannot),
        cmocka_unit_test(reads_others_lines),
        cmocka_unit_test(refuses_what_is_no_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
