#include "daemon/common/serve.h"

#include <signal.h>
#include <stdio.h>

static void *run(void *arg)
{
    struct serve_thread *t = arg;
    char name[16];
    snprintf(name, sizeof name, "data-%d", t->number);
    pthread_setname_np(pthread_self(), name);
    loop_run(t->loop);
    return NULL;
}

int serve_thread_start(struct serve_thread *t)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&t->thread, NULL, run, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    t->running = rc == 0;
    return rc == 0 ? 0 : ERR_OVERLOAD;
}

void serve_thread_stop(struct serve_thread *t)
{
    if (!t->running)
        return;
    loop_stop(t->loop);
    pthread_join(t->thread, NULL);
    t->running = false;
}

int serve_share(int64_t whole, int n_loops)
{
    return (int)((whole + n_loops - 1) / n_loops);
}

struct http_server *serve_listen(struct loop *l, const char *listen, const struct settings *s,
                                 int n_loops, struct http_service *service, char *err,
                                 size_t err_cap)
{
    struct http_limits limits = {
        .header_us = s->http.header_us,
        .read_us = s->http.read_us,
        .write_us = s->http.write_us,
        .idle_us = s->http.idle_us,
        .max_connections = serve_share(s->http.max_connections, n_loops),
        .max_header = (int)s->http.max_header,
        .max_body = (int)s->http.max_body,
    };
    return http_server_new(l, listen, true, &limits, service, "seckill_http", err, err_cap);
}
