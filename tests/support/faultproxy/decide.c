#include "decide.h"

#include "base/clock.h"
#include <string.h>

bool decide_init(struct decide *d, uint64_t seed, const char *log_path, int64_t log_max)
{
    *d = (struct decide){
        .key = {.k0 = seed, .k1 = UINT64_C(0x6661756c7470726f)}, .seed = seed, .log_max = log_max};
    if (log_path)
        d->log = fopen(log_path, "ae");
    return !log_path || d->log;
}

void decide_deinit(struct decide *d)
{
    if (d->log)
        fclose(d->log);
    d->log = NULL;
}

static size_t put_text(char *dst, size_t cap, const char *text)
{
    size_t n = text ? strnlen(text, cap - 1) : 0;
    if (n)
        memcpy(dst, text, n);
    dst[n] = 0;
    return n + 1;
}

uint64_t decide_u64(const struct decide *d, const struct decide_about *a)
{
    char bytes[3 * 256 + 16];
    size_t n = put_text(bytes, 256, a->what);
    n += put_text(bytes + n, 256, a->proxy);
    n += put_text(bytes + n, 256, a->toxic);
    memcpy(bytes + n, &a->connection, 8);
    memcpy(bytes + n + 8, &a->index, 8);
    return hash_sip64(&d->key, bytes, n + 16);
}

double decide_unit(const struct decide *d, const struct decide_about *a)
{
    return (double)(decide_u64(d, a) >> 11) * 0x1p-53;
}

int64_t decide_spread(const struct decide *d, const struct decide_about *a, int64_t spread)
{
    if (spread <= 0)
        return 0;
    return (int64_t)(decide_u64(d, a) % (2 * (uint64_t)spread + 1)) - spread;
}

void decide_log(struct decide *d, const char *event, const struct decide_about *a, json_t *more)
{
    if (!d->log || d->logged > d->log_max) {
        json_decref(more);
        return;
    }
    json_t *line = json_pack("{s:I, s:s}", "t_us", (json_int_t)clock_mono_us(), "event", event);
    if (a && a->proxy)
        json_object_set_new(line, "proxy", json_string(a->proxy));
    if (a && a->toxic)
        json_object_set_new(line, "toxic", json_string(a->toxic));
    if (a && a->connection)
        json_object_set_new(line, "connection", json_integer((json_int_t)a->connection));
    if (more)
        json_object_update(line, more);
    json_decref(more);
    char *text = json_dumps(line, JSON_COMPACT);
    json_decref(line);
    if (!text)
        return;
    d->logged += fprintf(d->log, "%s\n", text);
    free(text);
    if (d->logged > d->log_max)
        fprintf(d->log, "{\"event\":\"log_full\"}\n");
    fflush(d->log);
}
