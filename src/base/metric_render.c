/* Prometheus's text format 0.0.4. */
#include "base/metric_series.h"

#include <stdio.h>
#include <stdlib.h>

void metric_add_double(struct strbuf *b, double v)
{
    char text[40];
    /* The shortest that reads back as the same number: "0.1", not "0.10000000000000001". */
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    strbuf_add_str(b, str_of(text));
}

/* The name with its suffix and its labels: a_bucket{route="x",le="0.1"} and a space. */
static void add_series(struct strbuf *b, const struct metric *m, const char *suffix, const char *le)
{
    strbuf_add_str(b, str_of(m->family->name));
    strbuf_add_str(b, str_of(suffix));
    if (*m->labels || le) {
        strbuf_add_char(b, '{');
        strbuf_add_str(b, str_of(m->labels));
        if (le) {
            strbuf_add_str(b, *m->labels ? STR(",le=\"") : STR("le=\""));
            strbuf_add_str(b, str_of(le));
            strbuf_add_char(b, '"');
        }
        strbuf_add_char(b, '}');
    }
    strbuf_add_char(b, ' ');
}

static void add_value_u64(struct strbuf *b, const struct metric *m, const char *suffix,
                          const char *le, uint64_t v)
{
    add_series(b, m, suffix, le);
    strbuf_add_u64(b, v);
    strbuf_add_char(b, '\n');
}

static void add_histogram(struct strbuf *b, const struct metric *m)
{
    const struct metric_family *f = m->family;
    uint64_t below = 0;
    double sum = 0;
    for (size_t s = 0; s < METRIC_SHARDS; s++)
        sum += atomic_load_explicit(&metric_shard(m, s)->sum, memory_order_relaxed);
    for (int i = 0; i <= f->n_bounds; i++) {
        for (size_t s = 0; s < METRIC_SHARDS; s++)
            below += atomic_load_explicit(&metric_shard(m, s)->count[i], memory_order_relaxed);
        char le[48];
        struct strbuf text;
        strbuf_init_fixed(&text, le, sizeof le);
        if (i < f->n_bounds)
            metric_add_double(&text, f->bounds[i]);
        else
            strbuf_add_str(&text, STR("+Inf"));
        strbuf_add_char(&text, 0);
        add_value_u64(b, m, "_bucket", le, below);
    }
    add_series(b, m, "_sum", NULL);
    metric_add_double(b, sum);
    strbuf_add_char(b, '\n');
    /* The same number as the last bucket's, even while others count on. */
    add_value_u64(b, m, "_count", NULL, below);
}

static void add_help(struct strbuf *b, const struct metric_family *f)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    strbuf_add_str(b, STR("# HELP "));
    strbuf_add_str(b, str_of(f->name));
    strbuf_add_char(b, ' ');
    for (const char *c = f->help; *c; c++) {
        if (*c == '\n')
            strbuf_add_str(b, STR("\\n"));
        else if (*c == '\\')
            strbuf_add_str(b, STR("\\\\"));
        else
            strbuf_add_char(b, *c);
    }
    strbuf_add_str(b, STR("\n# TYPE "));
    strbuf_add_str(b, str_of(f->name));
    strbuf_add_char(b, ' ');
    strbuf_add_str(b, str_of(types[f->kind]));
    strbuf_add_char(b, '\n');
}

static void add_family(struct strbuf *b, const struct metric_family *f)
{
    add_help(b, f);
    for (const struct metric *m = f->first; m; m = m->next) {
        switch (f->kind) {
        case METRIC_COUNTER:
            add_value_u64(b, m, "", NULL, metric_value(m));
            break;
        case METRIC_GAUGE:
            if (!atomic_load_explicit(&m->known, memory_order_acquire))
                break;
            add_series(b, m, "", NULL);
            strbuf_add_i64(b, atomic_load_explicit(&m->gauge, memory_order_relaxed));
            strbuf_add_char(b, '\n');
            break;
        case METRIC_HISTOGRAM:
            add_histogram(b, m);
            break;
        }
    }
}

void metric_render(struct strbuf *b)
{
    metric_lock();
    for (const struct metric_family *f = metric_families(); f; f = f->next)
        add_family(b, f);
    metric_unlock();
    metric_render_process(b);
}
