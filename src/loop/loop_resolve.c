/* Host names: numbers, unix paths and "localhost" are answered here, the rest by evdns (/etc/hosts,
 * /etc/resolv.conf). Each lookup has a record of its own that outlives a cancel, since evdns calls
 * back in any case. */
#include "loop/loop_internal.h"

#include "base/err.h"
#include "base/panic.h"
#include "base/str.h"
#include <arpa/inet.h>
#include <event2/dns.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/un.h>

struct lookup {
    struct loop *loop;
    struct loop_resolve *r; /* NULL: cancelled */
    struct evdns_getaddrinfo_request *request;
    struct loop_task task; /* on_done never comes inside loop_resolve_start */
    int rc;
    bool starting;
};

static void finish(struct lookup *k)
{
    struct loop_resolve *r = k->r;
    int rc = k->rc;
    k->loop->resolving--;
    free(k);
    if (!r)
        return;
    r->impl = NULL;
    r->on_done(r, rc);
}

static void on_task(struct loop_task *t)
{
    finish(container_of(t, struct lookup, task));
}

static bool unix_address(struct loop_resolve *r, const char *host)
{
    const char *path = strncmp(host, "unix:", 5) == 0 ? host + 5 : host;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (path[0] != '/' || !str_copy(a.sun_path, sizeof a.sun_path, str_of(path)))
        return false;
    memcpy(&r->addr, &a, sizeof a);
    r->addr_len = sizeof a;
    return true;
}

static bool numeric_address(struct loop_resolve *r, const char *host, int port)
{
    char text[64];
    size_t n = strlen(host);
    if (n >= sizeof text)
        return false;
    bool brackets = n > 2 && host[0] == '[' && host[n - 1] == ']';
    str_copy(text, sizeof text, brackets ? (struct str){host + 1, n - 2} : str_of(host));
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    /* A machine without DNS, or without /etc/hosts, still has itself (RFC 6761). */
    if (inet_pton(AF_INET, strcmp(text, "localhost") == 0 ? "127.0.0.1" : text, &v4.sin_addr) ==
        1) {
        memcpy(&r->addr, &v4, sizeof v4);
        r->addr_len = sizeof v4;
        return true;
    }
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        memcpy(&r->addr, &v6, sizeof v6);
        r->addr_len = sizeof v6;
        return true;
    }
    return false;
}

static const struct evutil_addrinfo *chosen(const struct evutil_addrinfo *list, bool prefer_ipv4)
{
    for (const struct evutil_addrinfo *a = list; a && prefer_ipv4; a = a->ai_next) {
        if (a->ai_family == AF_INET)
            return a;
    }
    return list;
}

static void on_addresses(int err, struct evutil_addrinfo *list, void *arg)
{
    struct lookup *k = arg;
    k->request = NULL;
    k->rc = ERR_UNAVAIL;
    const struct evutil_addrinfo *a = k->r && !err ? chosen(list, k->r->prefer_ipv4) : NULL;
    if (a && a->ai_addrlen <= sizeof k->r->addr) {
        memcpy(&k->r->addr, a->ai_addr, a->ai_addrlen);
        k->r->addr_len = (socklen_t)a->ai_addrlen;
        k->rc = 0;
    }
    if (list)
        evutil_freeaddrinfo(list);
    if (k->starting)
        loop_defer(k->loop, &k->task);
    else
        finish(k);
}

static struct evdns_base *dns_of(struct loop *l)
{
    if (l->dns)
        return l->dns;
    l->dns = evdns_base_new(l->base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (!l->dns)
        return NULL;
    /* Either file may be missing: then there is less to find. Two tries of two seconds: the caller
     * has its own deadline. */
    evdns_base_resolv_conf_parse(l->dns, DNS_OPTIONS_ALL, "/etc/resolv.conf");
    evdns_base_set_option(l->dns, "timeout:", "2");
    evdns_base_set_option(l->dns, "attempts:", "2");
    return l->dns;
}

void loop_resolve_start(struct loop *l, struct loop_resolve *r, const char *host, int port)
{
    struct lookup *k = calloc(1, sizeof *k);
    if (!k)
        panic("loop_resolve_start: no memory");
    *k = (struct lookup){
        .loop = l, .r = r, .task.on_run = on_task, .rc = ERR_UNAVAIL, .starting = true};
    list_init(&k->task.link);
    l->resolving++;
    r->impl = k;
    r->addr_len = 0;
    bool here =
        port >= 0 && port <= 65535 && (unix_address(r, host) || numeric_address(r, host, port));
    struct evdns_base *dns = here || port < 0 || port > 65535 ? NULL : dns_of(l);
    if (!dns) {
        k->rc = here ? 0 : ERR_UNAVAIL;
        loop_defer(l, &k->task);
        return;
    }
    char service[8];
    service[str_from_u64(service, (uint64_t)port)] = 0;
    struct evutil_addrinfo hints = {.ai_family = AF_UNSPEC,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_protocol = IPPROTO_TCP,
                                    .ai_flags = EVUTIL_AI_ADDRCONFIG};
    struct evdns_getaddrinfo_request *request =
        evdns_getaddrinfo(dns, host, service, &hints, on_addresses, k);
    if (list_empty(&k->task.link)) /* else it has answered already */
        k->request = request;
    k->starting = false;
}

void loop_resolve_cancel(struct loop *l, struct loop_resolve *r)
{
    struct lookup *k = r->impl;
    if (!k)
        return;
    (void)l;
    r->impl = NULL;
    k->r = NULL;
    if (k->request)
        evdns_getaddrinfo_cancel(k->request); /* calls back later */
}

void loop_resolve_shutdown(struct loop *l)
{
    if (!l->dns)
        return;
    /* What was cancelled calls back first: evdns's own callback looks into its base, also when that
     * has been freed by then. */
    for (int i = 0; i < 64 && l->resolving; i++)
        event_base_loop(l->base, EVLOOP_NONBLOCK);
    evdns_base_free(l->dns, 1);
    l->dns = NULL;
    for (int i = 0; i < 64 && l->resolving; i++)
        event_base_loop(l->base, EVLOOP_NONBLOCK);
    if (l->resolving)
        panic("loop_free: %d lookups are under way", l->resolving);
}
