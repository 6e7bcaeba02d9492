/* The checks over what was seen of the programs (observed.h): their bounds (I8), their retries
 * (I9), and whether their metrics tell what happened (I11). The settings are those of this command:
 * the file of the programs. */
#include "base/err.h"
#include "daemon/ctl/audit.h"
#include <stdio.h>
#include <unistd.h>

#define API "seckill-api"
#define WORKER "order-worker"
#define QUERY "query-api"
#define FDS_BESIDE 64 /* descriptors that are no buyer's connection */

static const struct observed_life *life_of(const struct audit *a, const struct observed_series *s)
{
    return &a->observed.lives[s->life];
}

/* --- I8: what is bounded by configuration stays within it --- */

static void bound(struct audit *a, const char *program, const char *metric, int64_t most,
                  int64_t *checked)
{
    const struct observed *o = &a->observed;
    for (uint32_t i = 0; i < o->n_series; i++) {
        const struct observed_series *s = &o->series[i];
        if (strcmp(life_of(a, s)->program, program) != 0 || !observed_is_of(s, metric))
            continue;
        ++*checked;
        if (s->most > (double)most)
            audit_broken(a, AUDIT_I8, "%s %s (life %s): %s was %.0f, at most %lld", program,
                         life_of(a, s)->instance, life_of(a, s)->life, s->name, s->most,
                         (long long)most);
    }
}

static int64_t loops(int64_t configured)
{
    return configured ? configured : sysconf(_SC_NPROCESSORS_ONLN);
}

static void check_i8(struct audit *a)
{
    const struct settings *s = &a->c->settings;
    int64_t hand = s->worker.workers + s->worker.queue, connections = s->http.max_connections;
    int64_t books = s->pg.connections + 1; /* and one for results and retention */
    const struct {
        const char *program, *metric;
        int64_t most;
    } bounds[] = {
        {API, "seckill_http_connections", connections},
        {API, "seckill_http_inflight_requests", s->api.max_inflight + s->api.max_commands},
        {API, "seckill_admission_limit", s->api.max_inflight},
        {API, "process_threads", 1 + loops(s->api.loops)},
        {API, "process_open_fds", connections + FDS_BESIDE},
        {QUERY, "seckill_http_connections", connections},
        {QUERY, "seckill_query_pg_running", s->query.pg_connections},
        {QUERY, "seckill_query_pg_queued", s->query.pg_queue},
        {QUERY, "process_threads", 1 + loops(s->query.loops) + s->query.pg_connections},
        {QUERY, "process_open_fds", connections + FDS_BESIDE},
        {WORKER, "seckill_mq_inflight_messages", hand},
        {WORKER, "seckill_mq_jobs_queue_size", hand},
        {WORKER, "seckill_mq_in_hand", hand},
        {WORKER, "seckill_worker_batch_limit", s->worker.batch_max},
        {WORKER, "seckill_pg_acquired_connections", books},
        {WORKER, "seckill_pg_idle_connections", books},
        {WORKER, "seckill_items", s->worker.max_items},
        {WORKER, "process_threads", 1 + books},
        {WORKER, "process_open_fds", FDS_BESIDE},
    };
    int64_t checked = 0;
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        bound(a, bounds[i].program, bounds[i].metric, bounds[i].most, &checked);
    if (a->max_memory) {
        for (int i = 0; i < 3; i++)
            bound(a, (const char *const[]){API, QUERY, WORKER}[i], "process_resident_memory_bytes",
                  a->max_memory, &checked);
    }
    snprintf(a->checks[AUDIT_I8].note, AUDIT_NAME, "%lld figures of %u lives in %lld snapshots",
             (long long)checked, a->observed.n_lives, (long long)a->observed.snapshots);
}

/* --- I9: rule 32 --- */

static void check_retries(struct audit *a, uint32_t life, double *retries, double *calls)
{
    const struct settings *s = &a->c->settings;
    const struct observed_life *l = &a->observed.lives[life];
    double again = observed_sum_of(&a->observed, life, "seckill_worker_tx_retries_total");
    double all = observed_sum_of(&a->observed, life, "seckill_pg_tx_duration_seconds_count");
    double started = observed_sum_of(&a->observed, life, "process_start_time_seconds");
    double seconds = started > 0 ? (double)l->last_us / 1e6 - started : 0;
    int64_t minutes = 2 + (seconds > 0 ? (int64_t)seconds / 60 : 0); /* those begun */
    double floor_ = (double)(s->worker.retry_floor * minutes);
    double share = all * (double)s->worker.retry_percent / 100;
    *retries += again;
    *calls += all;
    if (again > share + floor_)
        audit_broken(a, AUDIT_I9,
                     "%s %s (life %s): %.0f retries of %.0f transactions, at most %lld %% and %.0f",
                     l->program, l->instance, l->life, again, all,
                     (long long)s->worker.retry_percent, floor_);
    if (again > (all - again) * (double)(s->worker.tx_attempts - 1))
        audit_broken(a, AUDIT_I9,
                     "%s %s (life %s): %.0f retries of %.0f transactions: more than "
                     "%lld attempts each",
                     l->program, l->instance, l->life, again, all - again,
                     (long long)s->worker.tx_attempts);
}

static void check_i9(struct audit *a)
{
    double retries = 0, calls = 0;
    for (uint32_t i = 0; i < a->observed.n_lives; i++) {
        if (strcmp(a->observed.lives[i].program, WORKER) == 0)
            check_retries(a, i, &retries, &calls);
    }
    /* At most two attempts of each. */
    const struct {
        const char *program, *again, *all;
    } twice[] = {
        {API, "seckill_mq_publish_retries_total", "seckill_mq_publish_total"},
        {WORKER, "seckill_mq_publish_retries_total", "seckill_mq_publish_total"},
        {API, "seckill_hold_retries_total", "seckill_http_requests_total"},
    };
    for (size_t i = 0; i < sizeof(twice) / sizeof(twice[0]); i++) {
        double again = observed_sum(&a->observed, twice[i].program, twice[i].again);
        double all = observed_sum(&a->observed, twice[i].program, twice[i].all);
        if (again > all)
            audit_broken(a, AUDIT_I9, "%s: %s is %.0f, of %.0f: more than two attempts each",
                         twice[i].program, twice[i].again, again, all);
    }
    snprintf(a->checks[AUDIT_I9].note, AUDIT_NAME, "%.0f retries in %.0f transactions", retries,
             calls);
}

/* --- I11 --- */

static bool all_final(const struct audit *a, const char *program)
{
    bool any = false;
    for (uint32_t i = 0; i < a->observed.n_lives; i++) {
        if (strcmp(a->observed.lives[i].program, program) != 0)
            continue;
        any = true;
        if (!a->observed.lives[i].final)
            return false;
    }
    return any;
}

static void check_injected(struct audit *a, const struct observed_injection *x)
{
    static const char *const words[] = {"exactly", "at least", "at most"};
    double told = observed_sum(&a->observed, x->program, x->metric);
    bool ok = x->is == OBSERVED_EQUAL      ? told == x->count
              : x->is == OBSERVED_AT_LEAST ? told >= x->count
                                           : told <= x->count;
    if (!ok)
        audit_broken(a, AUDIT_I11, "%s is %.0f, not %s %.0f: %s", x->metric, told, words[x->is],
                     x->count, x->what);
}

/* Of each status: the clients heard no more than were answered, and those answers that they did not
 * hear are among the unknown. Holds for a history of all that the API was asked. */
static void check_answers(struct audit *a)
{
    double unheard = (double)a->counts.unheard;
    for (int status = 100; status < AUDIT_STATUSES; status++) {
        char name[OBSERVED_NAME];
        double heard = (double)a->statuses[status];
        snprintf(name, sizeof(name), "seckill_http_requests_total{route=\"orders\",status=\"%d\"}",
                 status);
        double answered = observed_sum(&a->observed, API, name);
        if (heard > answered || answered > heard + unheard)
            audit_broken(a, AUDIT_I11, "%s is %.0f, clients heard %.0f and missed %.0f answers",
                         name, answered, heard, unheard);
    }
}

/* An order whose COMMIT had no answer, and whose message went to another process then, is met there
 * as known, and counted by nobody. */
static void check_created(struct audit *a)
{
    double created = observed_sum(&a->observed, WORKER, "seckill_order_created_total");
    double unknown = observed_sum(&a->observed, WORKER, "seckill_pg_commit_unknown_total");
    double orders = (double)a->counts.orders_of_all;
    if (created > orders || created + unknown * (double)a->c->settings.worker.batch_max < orders)
        audit_broken(a, AUDIT_I11,
                     "seckill_order_created_total is %.0f, PostgreSQL has %.0f orders", created,
                     orders);
}

static void check_i11(struct audit *a)
{
    bool api = a->has_history && all_final(a, API), worker = all_final(a, WORKER);
    for (uint32_t i = 0; i < a->observed.n_injections; i++)
        check_injected(a, &a->observed.injections[i]);
    if (api)
        check_answers(a);
    if (worker)
        check_created(a);
    snprintf(a->checks[AUDIT_I11].note, AUDIT_NAME, "%u injected counts%s%s",
             a->observed.n_injections,
             api ? ", the answers" : ", not the answers (no history, or a life without its end)",
             worker ? ", the orders" : ", not the orders (a life without its end)");
}

/* --- */

int audit_read_observed(struct audit *a, const char *path)
{
    char err[512];
    if (observed_read(&a->observed, path, err, sizeof(err)) < 0) {
        ctl_complain("audit: %s", err);
        return CTL_UNKNOWN;
    }
    a->has_observed = true;
    return 0;
}

void audit_check_observed(struct audit *a)
{
    static const enum audit_check_id of_it[] = {AUDIT_I8, AUDIT_I9, AUDIT_I11};
    for (size_t i = 0; !a->has_observed && i < 3; i++) {
        a->checks[of_it[i]].skipped = true;
        snprintf(a->checks[of_it[i]].note, AUDIT_NAME, "needs --metrics");
    }
    if (!a->has_observed)
        return;
    check_i8(a);
    check_i9(a);
    check_i11(a);
}
