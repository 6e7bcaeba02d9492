#include "daemon/admin.h"

#include "adapter/http/server.h"
#include "base/json.h"
#include "base/metric.h"
#include "base/panic.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FRESH_US 200000
#define WAITERS 64
#define TOKEN_MAX 256
#define BODY_MAX (16 << 20)

static const struct http_limits limits = {
    .header_us = 2000000,
    .read_us = 5000000,
    .write_us = 10000000,
    .idle_us = 60000000,
    .max_connections = 256,
    .max_header = 8192,
    .max_body = 4096,
};

struct admin {
    struct http_service service;
    struct loop *loop;
    struct http_server *server;
    const struct conf *conf;
    struct admin_check **checks;
    int n_checks;
    bool started, draining;
    char token[TOKEN_MAX];
    size_t token_len; /* 0: no token is asked for */
    /* Exchanges that wait for running checks. */
    struct http_exchange *waiting[WAITERS];
    int n_waiting;
};

static struct admin *admin_of(struct http_service *s)
{
    return container_of(s, struct admin, service);
}

static void json(struct http_exchange *x, int status, struct str body)
{
    http_respond(x, status, STR("application/json"), STR("Cache-Control: no-store\r\n"), body);
}

/* --- probes --- */

static void on_livez(struct http_service *s, struct http_exchange *x)
{
    (void)s;
    json(x, 200, STR("{\"status\":\"alive\"}\n"));
}

static void on_startupz(struct http_service *s, struct http_exchange *x)
{
    if (admin_of(s)->started)
        json(x, 200, STR("{\"status\":\"started\"}\n"));
    else
        json(x, 503, STR("{\"status\":\"starting\"}\n"));
}

/* The checks with this result that have something to say, as an array. How many. */
static int add_checks(const struct admin *a, struct strbuf *b, const char *name, bool ok)
{
    int n = 0;
    for (int i = 0; i < a->n_checks; i++) {
        const struct admin_check *c = a->checks[i];
        if (c->ok != ok || (ok && !c->why[0]))
            continue;
        strbuf_printf(b, n++ ? "," : ",\"%s\":[", name);
        strbuf_add_str(b, STR("{\"check\":"));
        json_add_string(b, str_of(c->name));
        strbuf_add_str(b, STR(",\"why\":"));
        json_add_string(b, str_of(c->why));
        strbuf_add_char(b, '}');
    }
    if (n)
        strbuf_add_char(b, ']');
    return n;
}

static void answer_ready(const struct admin *a, struct http_exchange *x)
{
    char mem[4096];
    struct strbuf b;
    if (a->draining) {
        json(x, 503, STR("{\"status\":\"draining\"}\n"));
        return;
    }
    strbuf_init_fixed(&b, mem, sizeof(mem));
    strbuf_add_str(&b, STR("{\"status\":\"not ready\""));
    int failed = add_checks(a, &b, "failed", false);
    if (!failed) {
        strbuf_clear(&b);
        strbuf_add_str(&b, STR("{\"status\":\"ready\""));
        add_checks(a, &b, "degraded", true);
    }
    strbuf_add_str(&b, STR("}\n"));
    if (b.failed)
        json(x, failed ? 503 : 200,
             failed ? STR("{\"status\":\"not ready\"}\n") : STR("{\"status\":\"ready\"}\n"));
    else
        json(x, failed ? 503 : 200, strbuf_str(&b));
}

static bool any_running(const struct admin *a)
{
    for (int i = 0; i < a->n_checks; i++) {
        if (a->checks[i]->running)
            return true;
    }
    return false;
}

static void on_waiter_gone(struct http_exchange *x)
{
    struct admin *a = x->viewer;
    for (int i = 0; i < a->n_waiting; i++) {
        if (a->waiting[i] == x) {
            a->waiting[i] = a->waiting[--a->n_waiting];
            return;
        }
    }
}

static void on_readyz(struct http_service *s, struct http_exchange *x)
{
    struct admin *a = admin_of(s);
    int64_t now = loop_now_us(a->loop);
    for (int i = 0; !a->draining && i < a->n_checks; i++) {
        struct admin_check *c = a->checks[i];
        if (c->running || (c->at_us && now - c->at_us <= FRESH_US))
            continue;
        c->running = true;
        c->start(c);
    }
    if (a->draining || !any_running(a)) {
        answer_ready(a, x);
    } else if (a->n_waiting == WAITERS) {
        http_problem(x, ANSWER_OVERLOADED, NULL, NULL);
    } else {
        x->viewer = a;
        x->on_gone = on_waiter_gone;
        a->waiting[a->n_waiting++] = x;
    }
}

static void answer_waiting(struct admin *a)
{
    while (a->n_waiting)
        answer_ready(a, a->waiting[--a->n_waiting]);
}

void admin_check_done(struct admin_check *c, int rc, const char *why)
{
    struct admin *a = c->admin;
    if (!c->running)
        panic("admin: check %s is done and was not running", c->name);
    c->running = false;
    c->ok = rc == 0;
    c->at_us = loop_now_us(a->loop);
    str_copy(c->why, sizeof(c->why), str_of(why ? why : rc == 0 ? "" : err_name(rc)));
    if (!any_running(a))
        answer_waiting(a);
}

/* --- metrics and configuration --- */

/* Takes as long for a token that is wrong at its first byte as at its last. */
static bool same_token(const struct admin *a, struct str given)
{
    volatile unsigned char differ = given.len != a->token_len;
    for (size_t i = 0; i < a->token_len; i++)
        differ |= (unsigned char)(a->token[i] ^ (given.len ? given.ptr[i % given.len] : 0));
    return differ == 0;
}

static bool allowed(const struct admin *a, struct http_exchange *x)
{
    struct str scheme, token = str_split(x->authorization, ' ', &scheme);
    if (a->token_len == 0 || (str_eq_nocase(scheme, STR("Bearer")) && same_token(a, token)))
        return true;
    http_problem_extra(x, ANSWER_UNAUTHENTICATED, NULL, NULL, (struct str){NULL, 0},
                       STR("WWW-Authenticate: Bearer\r\n"));
    return false;
}

static void respond_text(struct http_exchange *x, struct strbuf *b, struct str type)
{
    if (b->failed)
        http_problem(x, ANSWER_INTERNAL_ERROR, NULL, "too much to say");
    else
        http_respond(x, 200, type, STR("Cache-Control: no-store\r\n"), strbuf_str(b));
    strbuf_deinit(b);
}

static void on_metrics(struct http_service *s, struct http_exchange *x)
{
    struct strbuf b;
    if (!allowed(admin_of(s), x))
        return;
    strbuf_init(&b, BODY_MAX);
    metric_render(&b);
    respond_text(x, &b, STR("text/plain; version=0.0.4; charset=utf-8"));
}

static void on_config(struct http_service *s, struct http_exchange *x)
{
    struct strbuf b;
    if (!allowed(admin_of(s), x))
        return;
    strbuf_init(&b, BODY_MAX);
    conf_dump(admin_of(s)->conf, &b);
    respond_text(x, &b, STR("application/yaml"));
}

static const struct http_route routes[] = {
    {"GET", "/livez", "livez", on_livez},          {"GET", "/readyz", "readyz", on_readyz},
    {"GET", "/startupz", "startupz", on_startupz}, {"GET", "/metrics", "metrics", on_metrics},
    {"GET", "/config", "config", on_config},
};

/* --- life --- */

static bool is_loopback(const char *listen)
{
    struct str s = str_of(listen);
    return str_starts(s, STR("127.")) || str_starts(s, STR("[::1]:")) ||
           str_starts(s, STR("localhost:"));
}

/* The file's bytes without the white space at their end. */
static int read_token(struct admin *a, const char *path, char *err, size_t err_cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, a->token, sizeof(a->token));
    if (fd >= 0)
        close(fd);
    while (n > 0 && strchr(" \t\r\n", a->token[n - 1]))
        n--;
    if (n < 16 || n == (ssize_t)sizeof(a->token)) {
        snprintf(err, err_cap, "admin token file %s: %s", path,
                 n < 0 ? "cannot be read" : "a token has 16 to 255 bytes");
        return ERR_INVALID;
    }
    a->token_len = (size_t)n;
    return 0;
}

struct admin *admin_new(struct loop *l, const struct admin_config *c, char *err, size_t err_cap)
{
    struct admin *a = calloc(1, sizeof(*a));
    if (!a) {
        snprintf(err, err_cap, "no memory");
        return NULL;
    }
    a->service = (struct http_service){routes, sizeof(routes) / sizeof(routes[0])};
    a->loop = l;
    a->conf = c->conf;
    a->checks = c->checks;
    a->n_checks = c->n_checks;
    bool token = c->token_file && c->token_file[0];
    if (!token && !is_loopback(c->listen)) {
        snprintf(err, err_cap, "admin port %s is not on loopback: it needs admin.token_file",
                 c->listen);
    } else if (!token || read_token(a, c->token_file, err, err_cap) == 0) {
        a->server = http_server_new(l, c->listen, false, &limits, &a->service, "seckill_admin", err,
                                    err_cap);
    }
    if (!a->server) {
        free(a);
        return NULL;
    }
    for (int i = 0; i < a->n_checks; i++) {
        a->checks[i]->admin = a;
        a->checks[i]->running = a->checks[i]->ok = false;
        a->checks[i]->at_us = 0;
    }
    return a;
}

int admin_port(const struct admin *a)
{
    return http_server_port(a->server);
}

void admin_set_started(struct admin *a)
{
    a->started = true;
}

void admin_set_draining(struct admin *a)
{
    a->draining = true;
    answer_waiting(a);
}

void admin_free(struct admin *a)
{
    if (any_running(a))
        panic("admin: freed while a check is running");
    http_server_free(a->server);
    free(a);
}
