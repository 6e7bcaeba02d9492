/* The proxies: each listens at one address, hands connections on to another, and has its toxics.
 * All of one loop. */
#pragma once

#include "address.h"
#include "decide.h"
#include "linger.h"
#include "loop/loop.h"
#include "toxic.h"

enum { PROXY_NAME = 128, PROXIES_MAX = 256, PROXY_CONNECTIONS_MAX = 4096, PROXY_TOXICS_MAX = 64 };

struct proxies {
    struct loop *loop;
    struct decide decide;
    struct lingers lingers;
    struct list all;
    int n;
};

struct proxy {
    struct list link;
    struct proxies *of;
    char name[PROXY_NAME];
    struct address listen, upstream;
    bool enabled;
    struct loop_io listener;
    struct timer accept_again; /* after the descriptors ran out */
    struct list toxics, conns;
    int n_toxics, n_conns;
    uint64_t accepted;
    int64_t refused; /* connections beyond the bound, closed at once */
};

void proxies_init(struct proxies *ps, struct loop *l);
void proxies_deinit(struct proxies *ps); /* all connections are cut; the loop must run once more */
struct proxy *proxy_find(struct proxies *ps, const char *name);
/* Not enabled yet. NULL with a message. */
struct proxy *proxy_new(struct proxies *ps, const char *name, const char *listen,
                        const char *upstream, char *err, size_t err_cap);
void proxy_free(struct proxy *p);
/* Listens. False with a message when the address cannot be had. */
bool proxy_enable(struct proxy *p, char *err, size_t err_cap);
void proxy_disable(struct proxy *p); /* and cuts its connections */
struct toxic *proxy_toxic(struct proxy *p, const char *name);
void proxy_add_toxic(struct proxy *p, struct toxic *t); /* takes over the reference */
void proxy_toxic_changed(struct proxy *p, struct toxic *t);
void proxy_remove_toxic(struct proxy *p, struct toxic *t);
json_t *proxy_to_json(const struct proxy *p);
