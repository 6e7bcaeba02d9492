/* storm: the load demo. */
#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/storm_report.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define LIVE_US (INT64_C(200) * 1000)
#define LINE_US (INT64_C(2000) * 1000)

struct storm_args {
    struct item item;
    int64_t buyers, clicks, rate, connections, first_user, seed, limit_us, timeout_us, silence_us,
        follow_us;
    struct str api, query, history;
    bool same_key, json;
};
#define AT(member) offsetof(struct storm_args, member)
static const struct args_option options[] = {
    ARGS_ITEM(struct storm_args, item),
    {"buyers", ARGS_I64, AT(buyers), true, 1, STORM_BUYERS_MAX, "how many"},
    {"api", ARGS_TEXT, AT(api),
     .help = "URL of seckill-api (http://HOST:PORT; default: api.listen)"},
    {"query", ARGS_TEXT, AT(query),
     .help = "URL of query-api: asks the state of each accepted request until it is final"},
    {"follow", ARGS_DURATION, AT(follow_us), false, 1000, INT64_C(86400) * 1000000,
     "with --query: for so long at most (2m)"},
    {"clicks", ARGS_I64, AT(clicks), false, 1, 1000, "requests of each buyer (1)"},
    {"same-key", ARGS_FLAG, AT(same_key),
     .help = "the clicks of a buyer carry one Idempotency-Key"},
    {"rate", ARGS_I64, AT(rate), false, 1, 1000000,
     "requests a second, whatever the answers do (default: as fast as answers come)"},
    {"connections", ARGS_I64, AT(connections), false, 1, STORM_CONNECTIONS_MAX,
     "at once, at most (256)"},
    {"first-user", ARGS_I64, AT(first_user), false, 1, INT64_C(1) << 52,
     "user id of the first buyer (default: from the seed)"},
    {"seed", ARGS_I64, AT(seed), false, 0, INT64_MAX,
     "keys and users follow from it (default: random)"},
    {"patience", ARGS_DURATION, AT(silence_us), false, 1000, INT64_C(86400) * 1000000,
     "gives up after so long without any answer (30s)"},
    {"limit", ARGS_DURATION, AT(limit_us), false, 1000, INT64_C(86400) * 1000000,
     "nothing is sent after this (10m)"},
    {"timeout", ARGS_DURATION, AT(timeout_us), false, 1000, INT64_C(600) * 1000000,
     "of one try (3s)"},
    {"history", ARGS_TEXT, AT(history), .help = "file for what was sent and answered, JSONL"},
    ARGS_JSON(struct storm_args, json),
};

/* "http://host:port[/]", "host:port", "unix:/path" → host:port or the path. */
static bool read_url(struct str url, char *dst, size_t cap)
{
    if (str_starts(url, STR("unix:")))
        url = (struct str){url.ptr + 5, url.len - 5};
    else if (str_starts(url, STR("http://")))
        url = (struct str){url.ptr + 7, url.len - 7};
    bool path = url.len > 0 && url.ptr[0] == '/';
    if (!path && url.len > 0 && url.ptr[url.len - 1] == '/')
        url.len--;
    for (size_t i = 0; i < url.len; i++) {
        if ((unsigned char)url.ptr[i] <= ' ' || (!path && url.ptr[i] == '/'))
            return false;
    }
    if (url.len > 0 && url.ptr[0] == ':') { /* ":8080" of a listen address */
        if (url.len + sizeof("127.0.0.1") > cap)
            return false;
        memcpy(dst, "127.0.0.1", 9);
        return str_copy(dst + 9, cap - 9, url);
    }
    return url.len > 0 && str_copy(dst, cap, url);
}

struct run {
    struct loop *loop;
    struct storm *storm;
    struct storm_progress progress;
    struct timer tick;
    struct loop_signal term, interrupt;
    bool interrupted;
};

static void on_tick(struct timer *t)
{
    struct run *r = container_of(t, struct run, tick);
    if (ferror(stdout)) /* its reader left */
        storm_stop(r->storm);
    storm_progress(&r->progress, storm_totals(r->storm), loop_now_us(r->loop));
    sched_set_in(loop_sched(r->loop), t, r->progress.live ? LIVE_US : LINE_US);
}

static void on_end(struct storm *s, void *arg)
{
    (void)s;
    loop_stop(((struct run *)arg)->loop);
}

/* The first asks for the end of what is under way, the second does not wait for it. */
static void interrupted(struct run *r)
{
    if (r->interrupted)
        loop_stop(r->loop);
    r->interrupted = true;
    storm_stop(r->storm);
}
static void on_term(struct loop_signal *s, int signo)
{
    (void)signo;
    interrupted(container_of(s, struct run, term));
}
static void on_interrupt(struct loop_signal *s, int signo)
{
    (void)signo;
    interrupted(container_of(s, struct run, interrupt));
}

static int storm(struct storm_config *config, bool json)
{
    struct run r = {.loop = config->loop};
    bool tty = isatty(json ? STDERR_FILENO : STDOUT_FILENO);
    r.progress = (struct storm_progress){.to = !json ? stdout : tty ? stderr : NULL, .live = tty};
    r.storm = storm_new(config);
    if (!r.storm) {
        ctl_complain("storm: '%s' is no HOST:PORT, or there is no memory", config->host_port);
        return CTL_USAGE;
    }
    r.term.on_signal = on_term;
    r.interrupt.on_signal = on_interrupt;
    r.tick.on_fire = on_tick;
    loop_signal_add(r.loop, &r.term, SIGTERM);
    loop_signal_add(r.loop, &r.interrupt, SIGINT);
    r.progress.last_us = clock_mono_us();
    sched_set(loop_sched(r.loop), &r.tick,
              r.progress.last_us + (r.progress.live ? LIVE_US : LINE_US));
    storm_start(r.storm, on_end, &r);
    loop_run(r.loop);
    sched_clear(loop_sched(r.loop), &r.tick);
    loop_signal_remove(r.loop, &r.term);
    loop_signal_remove(r.loop, &r.interrupt);
    if (r.progress.live)
        storm_progress(&r.progress, storm_totals(r.storm), clock_mono_us());
    storm_progress_end(&r.progress);

    struct storm_totals totals = *storm_totals(r.storm);
    storm_free(r.storm);
    struct strbuf b;
    strbuf_init(&b, 1 << 20);
    storm_summary(config, &totals, json, &b);
    fwrite(b.ptr, 1, b.len, stdout);
    fflush(stdout);
    strbuf_deinit(&b);
    const char *wrong = storm_verdict(&totals);
    if (wrong && totals.states.malformed)
        ctl_complain("storm: %s (of a status call: %d, %s)", wrong, totals.states.malformed_status,
                     totals.states.malformed_why);
    else if (wrong && totals.tries.malformed)
        ctl_complain("storm: %s (the first one: %d, %s)", wrong, totals.malformed_status,
                     totals.malformed_why);
    else if (wrong)
        ctl_complain("storm: %s", wrong);
    return wrong ? CTL_FAILED : CTL_OK;
}

static int run(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct storm_args a = {.clicks = 1,
                           .connections = 256,
                           .seed = -1,
                           .limit_us = INT64_C(600) * 1000000,
                           .timeout_us = INT64_C(3) * 1000000,
                           .silence_us = INT64_C(30) * 1000000,
                           .follow_us = INT64_C(120) * 1000000};
    struct token_mint mint;
    char err[512], host_port[512], query[512], path[4096];
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    struct str api = a.api.ptr ? a.api : str_of(c->settings.api.listen);
    if (!read_url(api, host_port, sizeof(host_port))) {
        ctl_complain("storm: --api wants http://HOST:PORT, not '" STR_FMT "'", STR_ARG(api));
        return CTL_USAGE;
    }
    if (a.query.ptr && !read_url(a.query, query, sizeof(query))) {
        ctl_complain("storm: --query wants http://HOST:PORT, not '" STR_FMT "'", STR_ARG(a.query));
        return CTL_USAGE;
    }
    if (a.buyers * a.clicks > STORM_REQUESTS_MAX) {
        ctl_complain("storm: more than %d requests", STORM_REQUESTS_MAX);
        return CTL_USAGE;
    }
    if (a.seed < 0) {
        uint64_t random;
        rng_secret(&random, sizeof(random));
        a.seed = (int64_t)(random >> 1);
    }
    if (!ctl_loop(c))
        return CTL_FAILED;
    if (token_mint_init(&mint, &c->settings, err, sizeof(err)) < 0) {
        ctl_complain("storm: %s", err);
        return CTL_FAILED;
    }
    struct storm_config config = {.loop = c->loop,
                                  .host_port = host_port,
                                  .item = a.item,
                                  .buyers = a.buyers,
                                  .clicks = a.clicks,
                                  .same_key = a.same_key,
                                  .first_user = a.first_user,
                                  .seed = (uint64_t)a.seed,
                                  .rate = a.rate,
                                  .connections = (int)a.connections,
                                  .timeout_us = a.timeout_us,
                                  .limit_us = a.limit_us,
                                  .silence_us = a.silence_us,
                                  .query = a.query.ptr ? query : NULL,
                                  .follow_us = a.follow_us,
                                  .mint = &mint};
    /* Whole numbers in every JSON reader, and two storms without a seed do not meet. */
    if (!config.first_user)
        config.first_user = 1 + (int64_t)(hash_mix64(config.seed) >> 12);
    rc = CTL_OK;
    if (a.history.ptr) {
        if (!str_copy(path, sizeof(path), a.history)) {
            ctl_complain("storm: the history's path is too long");
            rc = CTL_USAGE;
        } else if (!(config.history = history_open(path, err, sizeof(err)))) {
            ctl_complain("storm: %s", err);
            rc = CTL_FAILED;
        }
    }
    if (rc == CTL_OK)
        rc = storm(&config, a.json);
    if (config.history && !history_close(config.history)) {
        ctl_complain("storm: the history could not be written in full");
        rc = CTL_FAILED;
    }
    token_mint_deinit(&mint);
    return rc;
}

const struct ctl_command storm_command = {
    .group = "storm",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .words = "",
    .help = "many buyers want one item\n"
            "Each is a user with a token of its own, minted with the development key. 429, 503, "
            "504 and lost answers are\ntried again with the same key, nine times at most, no "
            "sooner than asked for (1 s at most). Latencies count\nfrom the time a request should "
            "have been sent.\nFails only when nothing could be sent, nobody got an answer, or "
            "answers break the contract;\nwith --query, too, when an accepted request is not found "
            "by its Location.\n",
    .run = run,
};
