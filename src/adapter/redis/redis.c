/* What the owner has: one connection, or a cluster. */
#include "adapter/redis/cluster.h"
#include "adapter/redis/internal.h"

#include <stdlib.h>

struct redis *redis_new(struct loop *l, const struct redis_config *c)
{
    struct redis_url url;
    if (!c->url || redis_url_parse(c->url, &url))
        return NULL;
    struct redis *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    if (url.topology == REDIS_CLUSTER)
        r->cluster = cluster_new(l, c, &url);
    else
        r->conn = conn_new(l, c, &url);
    if (r->cluster || r->conn)
        return r;
    free(r);
    return NULL;
}

void redis_free(struct redis *r)
{
    if (!r)
        return;
    if (r->cluster) {
        cluster_free(r->cluster);
    } else {
        conn_close(r->conn);
        conn_free(r->conn);
    }
    free(r);
}

void redis_send(struct redis *r, struct redis_call *c)
{
    if (r->conn)
        pipeline_send(r->conn, c);
    else
        cluster_send(r->cluster, c);
}

bool redis_ready(const struct redis *r)
{
    return r->conn ? r->conn->phase == LINK_UP : cluster_ready(r->cluster);
}

int redis_servers(const struct redis *r)
{
    return r->conn ? 1 : cluster_masters(r->cluster);
}

bool redis_is_cluster(const struct redis *r)
{
    return r->cluster != NULL;
}

bool redis_reaches(const struct redis *r, struct str key)
{
    return r->conn ? r->conn->phase == LINK_UP : cluster_reaches(r->cluster, key);
}

int redis_server(const struct redis *r, struct str key)
{
    return r->conn ? 0 : cluster_server(r->cluster, key);
}

struct redis_time *redis_clock(const struct redis_call *c)
{
    return &c->conn->time;
}
