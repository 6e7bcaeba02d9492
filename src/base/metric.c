#include "base/metric.h"

#include "base/metric_series.h"
#include "base/panic.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct metric_family *families, *families_last;
static int n_series;

static const double default_bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                        0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};

struct metric_family *metric_families(void)
{
    return families;
}

void metric_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void metric_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static void *must_alloc(size_t align, size_t n)
{
    void *p = aligned_alloc(align, (n + align - 1) / align * align);
    if (!p)
        panic("metric: no memory");
    return memset(p, 0, n);
}

static char *must_dup(const char *s)
{
    return memcpy(must_alloc(16, strlen(s) + 1), s, strlen(s) + 1);
}

/* Length of the identifier at s, 0 if there is none. */
static size_t identifier(const char *s, bool colons)
{
    size_t n = 0;
    for (;; n++) {
        char c = s[n];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(colons && c == ':') && !(n && c >= '0' && c <= '9'))
            return n;
    }
}

/* name="value",name="value": whatever else would make the whole page unreadable for the scraper. */
static bool good_labels(const char *s, bool histogram)
{
    while (*s) {
        size_t n = identifier(s, false);
        if (n == 0 || (histogram && n == 2 && memcmp(s, "le", 2) == 0) || s[n] != '=' ||
            s[n + 1] != '"')
            return false;
        for (s += n + 2; *s != '"'; s++) {
            if (*s == 0 || *s == '\n')
                return false;
            if (*s == '\\' && *++s != '\\' && *s != '"' && *s != 'n')
                return false;
        }
        s++;
        if (*s == ',' && s[1] != 0)
            s++;
        else if (*s)
            return false;
    }
    return true;
}

static struct metric_family *take_family(const char *name, const char *help, enum metric_kind kind,
                                         const double *bounds, int n_bounds)
{
    for (struct metric_family *f = families; f; f = f->next) {
        if (strcmp(f->name, name) != 0)
            continue;
        if (f->kind != kind)
            panic("metric %s: registered before as another type", name);
        if (f->n_bounds != n_bounds ||
            (n_bounds && memcmp(f->bounds, bounds, sizeof *bounds * (size_t)n_bounds) != 0))
            panic("metric %s: registered before with other bounds", name);
        return f;
    }
    struct metric_family *f = must_alloc(16, sizeof *f);
    f->name = must_dup(name);
    f->help = must_dup(help);
    f->kind = kind;
    f->n_bounds = n_bounds;
    if (n_bounds) {
        f->bounds = must_alloc(16, sizeof *bounds * (size_t)n_bounds);
        memcpy(f->bounds, bounds, sizeof *bounds * (size_t)n_bounds);
    }
    if (families_last)
        families_last->next = f;
    else
        families = f;
    families_last = f;
    return f;
}

static struct metric *take_series(struct metric_family *f, const char *labels)
{
    for (struct metric *m = f->first; m; m = m->next) {
        if (strcmp(m->labels, labels) == 0)
            return m;
    }
    if (++n_series > METRIC_MAX_SERIES)
        panic("metric %s{%s}: more than %d series", f->name, labels, METRIC_MAX_SERIES);
    struct metric *m = must_alloc(METRIC_LINE, sizeof *m);
    m->family = f;
    m->labels = must_dup(labels);
    if (f->kind != METRIC_GAUGE) {
        size_t need = sizeof(struct metric_shard) + sizeof(uint64_t) * ((size_t)f->n_bounds + 1);
        m->stride = (need + METRIC_LINE - 1) / METRIC_LINE * METRIC_LINE;
        m->shards = must_alloc(METRIC_LINE, m->stride * METRIC_SHARDS);
    }
    if (f->last)
        f->last->next = m;
    else
        f->first = m;
    f->last = m;
    return m;
}

static struct metric *take(const char *name, const char *help, const char *labels,
                           enum metric_kind kind, const double *bounds, int n_bounds)
{
    if (identifier(name, true) != strlen(name) || !*name)
        panic("metric \"%s\": not a metric name", name);
    labels = labels ? labels : "";
    if (!good_labels(labels, kind == METRIC_HISTOGRAM))
        panic("metric %s{%s}: not a list of labels", name, labels);
    metric_lock();
    struct metric *m =
        take_series(take_family(name, help ? help : "", kind, bounds, n_bounds), labels);
    metric_unlock();
    return m;
}

struct metric *metric_counter(const char *name, const char *help, const char *labels)
{
    return take(name, help, labels, METRIC_COUNTER, NULL, 0);
}

struct metric *metric_gauge(const char *name, const char *help, const char *labels)
{
    return take(name, help, labels, METRIC_GAUGE, NULL, 0);
}

struct metric *metric_histogram(const char *name, const char *help, const char *labels,
                                const double *bounds, int n)
{
    if (!bounds) {
        bounds = default_bounds;
        n = sizeof default_bounds / sizeof *default_bounds;
    }
    if (n < 1 || n > METRIC_MAX_BOUNDS)
        panic("metric %s: %d bounds, but 1 to %d are possible", name, n, METRIC_MAX_BOUNDS);
    for (int i = 0; i < n; i++) {
        if (!isfinite(bounds[i]) || (i && bounds[i] <= bounds[i - 1]))
            panic("metric %s: bound %d is not above the one before", name, i);
    }
    return take(name, help, labels, METRIC_HISTOGRAM, bounds, n);
}

static struct metric_shard *my_shard(struct metric *m)
{
    static atomic_uint threads;
    static _Thread_local unsigned mine; /* + 1, so that 0 is "not chosen yet" */
    if (!mine)
        mine = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % METRIC_SHARDS + 1;
    return metric_shard(m, mine - 1);
}

static void expect_kind(const struct metric *m, enum metric_kind kind)
{
    if (m->family->kind != kind)
        panic("metric %s: used as another type than it is", m->family->name);
}

void metric_add(struct metric *m, uint64_t n)
{
    expect_kind(m, METRIC_COUNTER);
    atomic_fetch_add_explicit(&my_shard(m)->count[0], n, memory_order_relaxed);
}

void metric_set(struct metric *m, int64_t value)
{
    expect_kind(m, METRIC_GAUGE);
    atomic_store_explicit(&m->gauge, value, memory_order_relaxed);
    atomic_store_explicit(&m->known, true, memory_order_release);
}

void metric_gauge_add(struct metric *m, int64_t d)
{
    expect_kind(m, METRIC_GAUGE);
    atomic_fetch_add_explicit(&m->gauge, d, memory_order_relaxed);
    if (!atomic_load_explicit(&m->known, memory_order_relaxed))
        atomic_store_explicit(&m->known, true, memory_order_release);
}

void metric_set_unknown(struct metric *m)
{
    expect_kind(m, METRIC_GAUGE);
    atomic_store_explicit(&m->known, false, memory_order_relaxed);
}

void metric_observe(struct metric *m, double v)
{
    expect_kind(m, METRIC_HISTOGRAM);
    if (isnan(v))
        return; /* in no bucket, and it would spoil the sum for ever */
    const struct metric_family *f = m->family;
    struct metric_shard *shard = my_shard(m);
    int i = 0;
    while (i < f->n_bounds && v > f->bounds[i])
        i++;
    atomic_fetch_add_explicit(&shard->count[i], 1, memory_order_relaxed);
    double sum = atomic_load_explicit(&shard->sum, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&shard->sum, &sum, sum + v, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

void metric_observe_us(struct metric *m, int64_t us)
{
    metric_observe(m, us > 0 ? (double)us / 1e6 : 0);
}

uint64_t metric_value(const struct metric *m)
{
    if (m->family->kind == METRIC_GAUGE)
        return (uint64_t)atomic_load_explicit(&m->gauge, memory_order_relaxed);
    uint64_t n = 0;
    for (size_t s = 0; s < METRIC_SHARDS; s++) {
        for (int i = 0; i <= m->family->n_bounds; i++)
            n += atomic_load_explicit(&metric_shard(m, s)->count[i], memory_order_relaxed);
    }
    return n;
}
