#include "base/log.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096 };

static const char cut_end[] = ",\"cut\":true}\n";

/* Names are set once, before there are threads; level and fd are read by all of them. */
static char log_service[64], log_instance[128];
static _Atomic int log_least = LOG_INFO;
static _Atomic int log_fd = STDERR_FILENO;

void log_setup(const char *service, const char *instance, enum log_level least)
{
    str_copy(log_service, sizeof log_service, str_of(service));
    str_copy(log_instance, sizeof log_instance, str_of(instance));
    atomic_store_explicit(&log_least, least, memory_order_relaxed);
}

void log_to_fd(int fd)
{
    atomic_store_explicit(&log_fd, fd, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&log_least, memory_order_relaxed);
}

/* A line under construction. There is always room left for cut_end, so that a line that does not
 * fit still ends well. */
struct line {
    char bytes[LINE_MAX_BYTES];
    size_t len;
    bool cut;
};

enum { LINE_ROOM = LINE_MAX_BYTES - (sizeof cut_end - 1) };

static bool put(struct line *l, const char *bytes, size_t n)
{
    if (l->cut || n > LINE_ROOM - l->len) {
        l->cut = true;
        return false;
    }
    memcpy(l->bytes + l->len, bytes, n);
    l->len += n;
    return true;
}

/* ,"name": – all or nothing, with room for the two quotes of an empty value. */
static bool put_name(struct line *l, const char *name)
{
    size_t n = strlen(name);
    if (l->cut || n + 6 > LINE_ROOM - l->len) {
        l->cut = true;
        return false;
    }
    put(l, ",\"", 2);
    put(l, name, n);
    put(l, "\":", 2);
    return true;
}

/* A value that does not fit is cut between two characters; its closing quote has its place kept. */
static void put_string(struct line *l, struct str s)
{
    put(l, "\"", 1);
    for (size_t at = 0; at < s.len;) {
        char escaped[JSON_ESCAPE_MAX];
        size_t n = json_escape_next(s, &at, escaped);
        if (n + 1 > LINE_ROOM - l->len) {
            l->bytes[l->len++] = '"';
            l->cut = true;
            return;
        }
        memcpy(l->bytes + l->len, escaped, n);
        l->len += n;
    }
    put(l, "\"", 1);
}

/* A number or a word stands whole or not at all: half a number would be another number. */
static void put_plain(struct line *l, const char *name, const char *value, size_t n)
{
    size_t before = l->len;
    if (put_name(l, name) && !put(l, value, n))
        l->len = before;
}

static void put_field(struct line *l, const struct log_field *f)
{
    char digits[20];
    switch (f->type) {
    case LOG_FIELD_STR:
        if (!f->s.ptr)
            put_plain(l, f->name, "null", 4);
        else if (put_name(l, f->name))
            put_string(l, f->s);
        break;
    case LOG_FIELD_I64:
        put_plain(l, f->name, digits, str_from_i64(digits, f->i));
        break;
    case LOG_FIELD_BOOL:
        put_plain(l, f->name, f->i ? "true" : "false", f->i ? 4 : 5);
        break;
    }
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    int saved = errno; /* a log line between a failure and its report must not change the report */
    struct line l;
    l.len = 0;
    l.cut = false;
    char ts[24];
    put(&l, "{\"ts\":\"", 7);
    put(&l, ts, parse_format_time_ms(ts, clock_wall_us() / 1000));
    put(&l, "\"", 1);
    const struct log_field head[] = {
        LOG_Z("level", names[level]),
        LOG_Z("service", log_service),
        LOG_Z("instance", log_instance),
        LOG_Z("msg", msg),
    };
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        put_field(&l, &head[i]);
    for (; fields->name && !l.cut; fields++)
        put_field(&l, fields);
    const char *end = l.cut ? cut_end : "}\n";
    size_t n = strlen(end);
    memcpy(l.bytes + l.len, end, n);
    l.len += n;
    /* One write, and no second one for the rest: it might land inside another thread's line. A log
     * that cannot be written must not stop the service. */
    while (write(atomic_load_explicit(&log_fd, memory_order_relaxed), l.bytes, l.len) < 0 &&
           errno == EINTR)
        ;
    errno = saved;
}

bool log_allowed(struct log_limit *l, int64_t now_us, uint64_t *suppressed)
{
    int64_t next = atomic_load_explicit(&l->next_us, memory_order_relaxed);
    if (now_us < next ||
        !atomic_compare_exchange_strong_explicit(&l->next_us, &next, now_us + 1000000,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&l->suppressed, 1, memory_order_relaxed);
        return false;
    }
    *suppressed = atomic_exchange_explicit(&l->suppressed, 0, memory_order_relaxed);
    return true;
}
