#include "daemon/ctl/out.h"

#include "base/json.h"
#include "unit.h"
#include <stdlib.h>

/* What a run of out_* prints. */
static char printed[4096];
static int saved_fd;
static FILE *file;

static void begin(struct out *o, bool json, bool list)
{
    fflush(stdout);
    saved_fd = dup(STDOUT_FILENO);
    file = tmpfile();
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
    out_begin(o, json, list);
}
static void end(struct out *o)
{
    assert_true(out_end(o));
    dup2(saved_fd, STDOUT_FILENO);
    close(saved_fd);
    rewind(file);
    size_t n = fread(printed, 1, sizeof(printed) - 1, file);
    printed[n] = 0;
    fclose(file);
}

static void put(struct out *o)
{
    struct uuid u;
    assert_int_equal(uuid_parse(STR("01a22d53-af66-7094-8fe0-bc69e4780bbc"), &u), 0);
    out_record(o);
    out_str(o, "text", STR("a \"b\"\n"));
    out_i64(o, "n", -7);
    out_id(o, "order", 385832300423249925);
    out_id(o, "none", 0);
    out_bool(o, "yes", true);
    out_time(o, "at", 1500);
    out_time(o, "never", -1);
    out_uuid(o, "id", &u);
    out_uuid(o, "noid", NULL);
    out_unknown(o, "age");
}

#define JSON                                                                                       \
    "{\"text\":\"a \\\"b\\\"\\n\",\"n\":-7,\"order\":\"385832300423249925\",\"none\":null,"        \
    "\"yes\":true,\"at\":\"1970-01-01T00:00:01.500Z\",\"never\":null,\"id\":\"01a22d53-af66-7094-" \
    "8fe0-bc69e4780bbc\",\"noid\":null,\"age\":null}"

static void writes_json(void **state)
{
    struct out o;
    (void)state;
    begin(&o, true, false);
    put(&o);
    end(&o);
    assert_string_equal(printed, JSON "\n");
    begin(&o, true, true);
    put(&o);
    put(&o);
    end(&o);
    assert_string_equal(printed, "[" JSON ",\n " JSON "]\n");
    begin(&o, true, true);
    end(&o);
    assert_string_equal(printed, "[]\n");
}

static void writes_text(void **state)
{
    struct out o;
    (void)state;
    begin(&o, false, false);
    out_record(&o);
    out_i64(&o, "n", 7);
    out_str(&o, "empty", STR(""));
    out_unknown(&o, "age");
    end(&o);
    assert_string_equal(printed, "n:                 7\n"
                                 "empty:             -\n"
                                 "age:               unknown\n");
    begin(&o, false, true);
    for (int i = 0; i < 100; i += 99) {
        out_record(&o);
        out_i64(&o, "number", i * 1000000);
        out_str(&o, "b", i ? STR("x") : STR(""));
    }
    end(&o);
    assert_string_equal(printed, "number    b\n"
                                 "0         -\n"
                                 "99000000  x\n");
    begin(&o, false, true);
    end(&o);
    assert_string_equal(printed, "none\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_json),
        cmocka_unit_test(writes_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
