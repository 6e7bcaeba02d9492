/* A Redis Cluster for one loop: a connection to each master, and which slot is whose. A call goes
 * where its key's slot is; MOVED and ASK are followed, at most CLUSTER_HOPS of them, within the
 * call's own deadline. The map comes from CLUSTER SLOTS: at the start, after a MOVED, a CLUSTERDOWN
 * or a lost connection, and until every slot has a master that is connected; never more than one
 * question in 100 ms. A slot that is not known is asked of any server: it says where it is. */
#pragma once

#include "adapter/redis/internal.h"

enum { CLUSTER_HOPS = 5, CLUSTER_NODES_MAX = 64 };

struct cluster;

struct cluster *cluster_new(struct loop *l, const struct redis_config *c,
                            const struct redis_url *url); /* NULL: no memory */
void cluster_free(struct cluster *cl);
void cluster_send(struct cluster *cl, struct redis_call *c);
bool cluster_ready(const struct cluster *cl);
bool cluster_reaches(const struct cluster *cl, struct str key);
int cluster_server(const struct cluster *cl, struct str key);
int cluster_masters(const struct cluster *cl);
