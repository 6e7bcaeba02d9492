/* faultproxy: a proxy for tests that delays, cuts, swallows and drops, driven over Toxiproxy's HTTP
 * API. One thread. Ends at SIGTERM or SIGINT. */
#include "api.h"
#include "base/parse.h"
#include "base/rng.h"
#include "control.h"
#include "proxy.h"
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_MAX (INT64_C(256) << 20)
#define SEED_MAX ((INT64_C(1) << 53) - 1) /* what every JSON reader keeps */

static const char usage[] =
    "usage: faultproxy [--listen 127.0.0.1:0] [--seed N] [--log FILE] [--ports-file FILE]\n"
    "Prints \"control=PORT seed=N\" (and writes control=PORT into the ports file) when it "
    "listens.\n";

struct options {
    const char *listen, *log, *ports_file;
    int64_t seed;
};

struct program {
    struct loop *loop;
    struct loop_signal term, interrupt;
    struct proxies proxies;
    struct api api;
};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "faultproxy: %s: %s\n", what, why);
    return 1;
}

static bool parse_options(struct options *o, int argc, char **argv)
{
    static const struct option known[] = {
        {"listen", required_argument, NULL, 'l'},
        {"seed", required_argument, NULL, 's'},
        {"log", required_argument, NULL, 'o'},
        {"ports-file", required_argument, NULL, 'p'},
        {NULL, 0, NULL, 0},
    };
    *o = (struct options){.listen = "127.0.0.1:0", .seed = -1};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (c) {
        case 'l':
            o->listen = optarg;
            break;
        case 's':
            if (parse_i64(str_of(optarg), 0, SEED_MAX, &o->seed))
                return false;
            break;
        case 'o':
            o->log = optarg;
            break;
        case 'p':
            o->ports_file = optarg;
            break;
        default:
            return false;
        }
    }
    return optind == argc;
}

static void on_signal(struct loop_signal *s, int signo)
{
    (void)signo;
    loop_stop(s->loop);
}

/* Renamed into place: who finds it finds it complete. */
static bool write_ports(const char *path, int port)
{
    char temporary[4096];
    if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= (int)sizeof temporary)
        return false;
    FILE *f = fopen(temporary, "we");
    if (!f)
        return false;
    fprintf(f, "control=%d\n", port);
    return fclose(f) == 0 && rename(temporary, path) == 0;
}

static int serve(struct program *p, const struct options *o)
{
    char err[400];
    int port;
    struct control *control =
        control_new(p->loop, o->listen, &p->api.handler, &port, err, sizeof err);
    if (!control)
        return fail("cannot listen", err);
    int rc = 0;
    if (o->ports_file && !write_ports(o->ports_file, port)) {
        rc = fail(o->ports_file, strerror(errno));
    } else {
        if (!o->ports_file) /* else standard output belongs to whoever starts it */
            printf("control=%d seed=%llu\n", port, (unsigned long long)p->proxies.decide.seed);
        fflush(stdout);
        loop_run(p->loop);
    }
    proxies_deinit(&p->proxies);
    control_free(control);
    return rc;
}

int main(int argc, char **argv)
{
    struct options o;
    struct program p = {.term.on_signal = on_signal, .interrupt.on_signal = on_signal};
    if (!parse_options(&o, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    if (o.seed < 0) {
        rng_secret(&o.seed, sizeof o.seed);
        o.seed &= SEED_MAX;
    }
    signal(SIGPIPE, SIG_IGN);
    p.loop = loop_new();
    if (!p.loop || loop_signal_add(p.loop, &p.term, SIGTERM) ||
        loop_signal_add(p.loop, &p.interrupt, SIGINT))
        return fail("cannot start", "no memory");
    if (!decide_init(&p.proxies.decide, (uint64_t)o.seed, o.log, LOG_MAX))
        return fail(o.log, strerror(errno));
    proxies_init(&p.proxies, p.loop);
    api_init(&p.api, &p.proxies);
    decide_log(&p.proxies.decide, "begin", NULL, json_pack("{s:I}", "seed", (json_int_t)o.seed));
    int rc = serve(&p, &o);
    loop_signal_remove(p.loop, &p.term);
    loop_signal_remove(p.loop, &p.interrupt);
    loop_free(p.loop);
    decide_deinit(&p.proxies.decide);
    return rc;
}
