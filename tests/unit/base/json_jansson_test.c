/* Our reader against jansson: over a hundred thousand texts, good ones and good ones with damage,
 * both must say the same. Known differences, left out: jansson bounds numbers to what C can hold
 * (JSON_DECODE_INT_AS_REAL widens that to doubles, beyond which it refuses), and takes deeper texts
 * than we do. */
#include "base/json.h"
#include "base/rng.h"
#include "jansson_verdict.h"
#include "unit.h"

static bool ours(struct str text, bool *too_deep, bool *huge_number)
{
    struct json j;
    json_init(&j, text);
    for (;;) {
        enum json_type t = json_next(&j);
        if (t == JSON_NUMBER && (j.raw.len > 15 || memchr(j.raw.ptr, 'e', j.raw.len) ||
                                 memchr(j.raw.ptr, 'E', j.raw.len)))
            *huge_number = true;
        if (t == JSON_ERROR || t == JSON_END) {
            *too_deep = t == JSON_ERROR && j.depth == JSON_MAX_DEPTH;
            return t == JSON_END;
        }
    }
}

/* jansson reads a string's \u0000 only where JSON_ALLOW_NUL reaches: in values, not in keys. */
static bool nul_in_key(struct str text)
{
    struct json j;
    json_init(&j, text);
    for (;;) {
        enum json_type t = json_next(&j);
        char plain[512];
        if (t == JSON_ERROR || t == JSON_END)
            return false;
        if (t == JSON_KEY) {
            int n = json_unescape(&j, plain, sizeof plain);
            if (n > 0 && memchr(plain, 0, (size_t)n))
                return true;
        }
    }
}

static int compared, accepted;

static void compare(struct str text)
{
    bool too_deep = false, huge = false;
    bool a = ours(text, &too_deep, &huge);
    if (too_deep || huge || nul_in_key(text))
        return;
    bool b = jansson_accepts(text.ptr, text.len);
    compared++;
    accepted += a;
    if (a != b)
        fail_msg("%s here, %s there: " STR_FMT, a ? "good" : "bad", b ? "good" : "bad",
                 STR_ARG(text));
}

static void make_string(struct rng *r, struct strbuf *b)
{
    static const struct str parts[] = {
        STR("a"),
        STR("sku_id"),
        STR("0123456789abcdef"),
        STR("\\n"),
        STR("\\\""),
        STR("\\u0041"),
        STR("\\\\"),
        STR("\\ud83d\\ude00"),
        STR("\\uFFFF"),
        STR("\xe7\xa7\x92"),
        STR("\x7f"),
        STR("\\u0000"),
        STR("\xf0\x9f\x98\x80"),
        STR("\xc2\xa9"),
        STR(" "),
    };
    strbuf_add_char(b, '"');
    for (uint64_t n = rng_below(r, 5); n; n--)
        strbuf_add_str(b, parts[rng_below(r, sizeof parts / sizeof *parts)]);
    strbuf_add_char(b, '"');
}

static void space(struct rng *r, struct strbuf *b)
{
    if (rng_below(r, 4) == 0)
        strbuf_add_char(b, " \t\r\n"[rng_below(r, 4)]);
}

static void make_value(struct rng *r, struct strbuf *b, int depth)
{
    static const struct str scalars[] = {
        STR("null"), STR("true"), STR("false"), STR("0"),      STR("-1"),
        STR("10"),   STR("1.5"),  STR("-0.25"), STR("123456"), STR("9007199254740"),
    };
    uint64_t kind = rng_below(r, depth ? 5 : 3);
    space(r, b);
    if (kind < 2) {
        strbuf_add_str(b, scalars[rng_below(r, sizeof scalars / sizeof *scalars)]);
    } else if (kind == 2) {
        make_string(r, b);
    } else {
        strbuf_add_char(b, kind == 3 ? '[' : '{');
        uint64_t n = rng_below(r, 4);
        for (uint64_t i = 0; i < n; i++) {
            if (i)
                strbuf_add_char(b, ',');
            if (kind == 4) {
                space(r, b);
                make_string(r, b);
                space(r, b);
                strbuf_add_char(b, ':');
            }
            make_value(r, b, depth - 1);
        }
        space(r, b);
        strbuf_add_char(b, kind == 3 ? ']' : '}');
    }
    space(r, b);
}

/* One small damage: a byte lost, doubled, changed, or a piece put somewhere else. */
static size_t damage(struct rng *r, char *text, size_t n)
{
    static const char bytes[] = "{}[]\",:\\u0d8c-+.eE \t\n\x01\x80\xc0\xe2\xed\xf0\xff/ntf1";
    if (n == 0)
        return 0;
    size_t at = (size_t)rng_below(r, n);
    switch (rng_below(r, 4)) {
    case 0:
        memmove(text + at, text + at + 1, n - at - 1);
        return n - 1;
    case 1:
        memmove(text + at + 1, text + at, n - at);
        text[at] = bytes[rng_below(r, sizeof bytes - 1)];
        return n + 1;
    case 2:
        text[at] = bytes[rng_below(r, sizeof bytes - 1)];
        return n;
    default:
        return at;
    }
}

static void test_same_verdict(void **state)
{
    (void)state;
    struct rng r;
    rng_init_seed(&r, 2026);
    for (int i = 0; i < 30000; i++) {
        char mem[4096];
        struct strbuf b;
        strbuf_init_fixed(&b, mem, 2000);
        make_value(&r, &b, 4);
        if (b.failed)
            continue;
        compare(strbuf_str(&b));
        size_t n = b.len;
        for (int d = 0; d < 4; d++) {
            n = damage(&r, mem, n);
            compare((struct str){mem, n});
        }
    }
    /* The test must not have compared refusals only. */
    assert_true(compared > 100000);
    assert_true(accepted > 30000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_verdict)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
