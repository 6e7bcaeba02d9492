#include "proxy.h"

#include "conn.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_AGAIN_US 50000

void proxies_init(struct proxies *ps, struct loop *l)
{
    ps->loop = l;
    ps->n = 0;
    list_init(&ps->all);
    lingers_init(&ps->lingers, l);
}

void proxies_deinit(struct proxies *ps)
{
    list_for_each_safe (it, &ps->all)
        proxy_free(container_of(it, struct proxy, link));
    lingers_deinit(&ps->lingers);
}

struct proxy *proxy_find(struct proxies *ps, const char *name)
{
    list_for_each (it, &ps->all) {
        struct proxy *p = container_of(it, struct proxy, link);
        if (strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}

struct proxy *proxy_new(struct proxies *ps, const char *name, const char *listen,
                        const char *upstream, char *err, size_t err_cap)
{
    struct proxy *p = calloc(1, sizeof *p);
    if (!p || ps->n == PROXIES_MAX || strlen(name) >= sizeof p->name) {
        snprintf(err, err_cap, "too many proxies, or too long a name");
        free(p);
        return NULL;
    }
    if (!address_parse(&p->listen, listen, err, err_cap) ||
        !address_parse(&p->upstream, upstream, err, err_cap)) {
        free(p);
        return NULL;
    }
    strcpy(p->name, name);
    p->of = ps;
    p->listener.fd = -1;
    list_init(&p->toxics);
    list_init(&p->conns);
    list_push_back(&ps->all, &p->link);
    ps->n++;
    return p;
}

void proxy_free(struct proxy *p)
{
    proxy_disable(p);
    list_for_each_safe (it, &p->toxics)
        proxy_remove_toxic(p, container_of(it, struct toxic, link));
    list_remove(&p->link);
    p->of->n--;
    free(p);
}

static void on_accept_again(struct timer *t)
{
    struct proxy *p = container_of(t, struct proxy, accept_again);
    loop_io_want(p->of->loop, &p->listener, LOOP_READ);
}

static void on_listener(struct loop_io *io, int what)
{
    (void)what;
    struct proxy *p = container_of(io, struct proxy, listener);
    for (;;) {
        int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
            loop_io_want(p->of->loop, io, 0);
            sched_set_in(loop_sched(p->of->loop), &p->accept_again, ACCEPT_AGAIN_US);
        }
        if (fd < 0)
            return;
        if (p->n_conns >= PROXY_CONNECTIONS_MAX) {
            p->refused++;
            close(fd);
            continue;
        }
        p->accepted++;
        conn_open(p, fd);
    }
}

bool proxy_enable(struct proxy *p, char *err, size_t err_cap)
{
    if (p->enabled)
        return true;
    int fd = address_listen(&p->listen, err, err_cap);
    if (fd < 0)
        return false;
    p->listener.on_ready = on_listener;
    p->accept_again.on_fire = on_accept_again;
    if (loop_io_add(p->of->loop, &p->listener, fd, LOOP_READ)) {
        snprintf(err, err_cap, "no memory");
        close(fd);
        return false;
    }
    p->enabled = true;
    return true;
}

void proxy_disable(struct proxy *p)
{
    if (!p->enabled)
        return;
    p->enabled = false;
    sched_clear(loop_sched(p->of->loop), &p->accept_again);
    loop_io_remove(p->of->loop, &p->listener);
    close(p->listener.fd);
    p->listener.fd = -1;
    address_unlink(&p->listen);
    list_for_each_safe (it, &p->conns)
        conn_kill(container_of(it, struct conn, link), false);
}

struct toxic *proxy_toxic(struct proxy *p, const char *name)
{
    list_for_each (it, &p->toxics) {
        struct toxic *t = container_of(it, struct toxic, link);
        if (strcmp(t->name, name) == 0)
            return t;
    }
    return NULL;
}

static struct decide_about about(const struct proxy *p, const struct toxic *t)
{
    return (struct decide_about){.proxy = p->name, .toxic = t->name};
}

void proxy_add_toxic(struct proxy *p, struct toxic *t)
{
    struct decide_about a = about(p, t);
    decide_log(&p->of->decide, "toxic_added", &a, toxic_to_json(t));
    list_push_back(&p->toxics, &t->link);
    p->n_toxics++;
    list_for_each_safe (it, &p->conns)
        conn_toxic_added(container_of(it, struct conn, link), t);
}

void proxy_toxic_changed(struct proxy *p, struct toxic *t)
{
    struct decide_about a = about(p, t);
    decide_log(&p->of->decide, "toxic_changed", &a, toxic_to_json(t));
    list_for_each_safe (it, &p->conns)
        conn_toxic_changed(container_of(it, struct conn, link), t);
}

void proxy_remove_toxic(struct proxy *p, struct toxic *t)
{
    struct decide_about a = about(p, t);
    decide_log(&p->of->decide, "toxic_removed", &a, toxic_to_json(t));
    list_for_each_safe (it, &p->conns)
        conn_toxic_removed(container_of(it, struct conn, link), t);
    list_remove(&t->link);
    p->n_toxics--;
    toxic_unref(t);
}

json_t *proxy_to_json(const struct proxy *p)
{
    json_t *toxics = json_array();
    list_for_each (it, &p->toxics)
        json_array_append_new(toxics, toxic_to_json(container_of(it, struct toxic, link)));
    return json_pack("{s:s, s:s, s:s, s:b, s:o, s:{s:i, s:I, s:I}}", "name", p->name, "listen",
                     p->listen.text, "upstream", p->upstream.text, "enabled", (int)p->enabled,
                     "toxics", toxics, "stats", "connections", p->n_conns, "accepted",
                     (json_int_t)p->accepted, "refused", (json_int_t)p->refused);
}
