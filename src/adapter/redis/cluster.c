/* Happy path: seeds are dialled → CLUSTER SLOTS of one of them → a connection for each master, the
 * seeds that are none are given up once nothing is under way on them. Then only refusals change
 * anything: MOVED names the slot's new server at once, the map is asked for a moment later. */
#include "adapter/redis/cluster.h"

#include "adapter/redis/slot.h"
#include "adapter/redis/writer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include <stdlib.h>

enum { NOBODY = -1 };

#define GAP_US 100000    /* between two questions for the map */
#define UNSURE_US 500000 /* until the next one, while something is missing */

struct node {
    struct redis_address at;
    struct redis_conn *conn; /* NULL: a free place */
    bool master;             /* slots are its */
};

struct cluster {
    struct loop *loop;
    struct redis_config config;
    char link[32];
    struct redis_url url; /* its addresses are the seeds */
    struct node nodes[CLUSTER_NODES_MAX];
    int8_t owner[REDIS_SLOTS]; /* place in nodes, or NOBODY */
    struct redis_call map;     /* CLUSTER SLOTS */
    struct timer timer;
    struct loop_task sweep;
    int64_t asked_us;
    int turn, failures;
    bool asking, stale; /* the question is under way; what it tells may be old already */
    bool was_whole;     /* every slot had a master that was connected */
    bool closing;
    struct redis_metrics metrics;
};
_Static_assert(CLUSTER_NODES_MAX <= INT8_MAX, "owner is too small");

/* --- servers --- */

static bool on_refused(struct redis_conn *r, struct redis_call *c, const struct redis_reply *reply);
static void on_link(struct redis_conn *r, bool up);

/* Its place; NOBODY: too many of them, or no memory. */
static int node_at(struct cluster *cl, const struct redis_address *at)
{
    int place = NOBODY;
    for (int i = CLUSTER_NODES_MAX - 1; i >= 0; i--) {
        if (!cl->nodes[i].conn)
            place = i;
        else if (redis_address_eq(&cl->nodes[i].at, at))
            return i;
    }
    if (place == NOBODY)
        return NOBODY;
    struct redis_url url = cl->url;
    url.at[0] = *at;
    url.n = 1;
    struct redis_conn *conn = conn_new(cl->loop, &cl->config, &url);
    if (!conn)
        return NOBODY;
    conn->owner = cl;
    conn->on_refused = on_refused;
    conn->on_link = on_link;
    cl->nodes[place] = (struct node){.at = *at, .conn = conn};
    return place;
}

static void add_seeds(struct cluster *cl)
{
    for (int i = 0; i < cl->url.n; i++)
        node_at(cl, &cl->url.at[i]);
}

static int servers(const struct cluster *cl)
{
    int n = 0;
    for (int i = 0; i < CLUSTER_NODES_MAX; i++)
        n += cl->nodes[i].conn != NULL;
    return n;
}

int cluster_masters(const struct cluster *cl)
{
    int n = 0;
    for (int i = 0; i < CLUSTER_NODES_MAX; i++)
        n += cl->nodes[i].master;
    return n;
}

static int connected(const struct cluster *cl)
{
    int n = 0;
    for (int i = 0; i < CLUSTER_NODES_MAX; i++)
        n += cl->nodes[i].master && cl->nodes[i].conn->phase == LINK_UP;
    return n;
}

static bool all_slots_known(const struct cluster *cl)
{
    return memchr(cl->owner, (unsigned char)NOBODY, sizeof cl->owner) == NULL;
}

/* Every slot has a master, all of them are connected, and nobody else is. */
static bool whole(const struct cluster *cl)
{
    if (!all_slots_known(cl) || connected(cl) < cluster_masters(cl))
        return false;
    for (int i = 0; i < CLUSTER_NODES_MAX; i++) {
        if (cl->nodes[i].conn && !cl->nodes[i].master)
            return false;
    }
    return true;
}

static void on_sweep(struct loop_task *t)
{
    struct cluster *cl = container_of(t, struct cluster, sweep);
    for (int i = 0; i < CLUSTER_NODES_MAX && cluster_masters(cl) > 0; i++) {
        struct node *n = &cl->nodes[i];
        if (!n->conn || n->master || !conn_idle(n->conn))
            continue;
        conn_close(n->conn);
        conn_free(n->conn);
        *n = (struct node){0};
    }
}

/* --- the map --- */

static void ask_at(struct cluster *cl, int64_t at_us)
{
    if (cl->asking || cl->closing)
        return;
    if (cl->timer.slot && cl->timer.at_us <= at_us)
        return;
    sched_set(loop_sched(cl->loop), &cl->timer, at_us);
}

static void ask_soon(struct cluster *cl)
{
    cl->stale = true;
    int64_t now = loop_now_us(cl->loop), earliest = cl->asked_us + GAP_US;
    ask_at(cl, now > earliest ? now : earliest);
}

/* "start end {host port …} …": host empty or nil is the host that was asked. */
static int take_range(struct cluster *cl, const struct redis_reply *range,
                      const struct redis_conn *asked, int8_t owner[REDIS_SLOTS])
{
    if (range->type != REDIS_ARRAY || range->n < 3 || range->items[2]->type != REDIS_ARRAY ||
        range->items[2]->n < 2)
        return ERR_INTERNAL;
    int64_t from = range->items[0]->i, to = range->items[1]->i;
    const struct redis_reply *host = range->items[2]->items[0], *port = range->items[2]->items[1];
    if (from < 0 || to >= REDIS_SLOTS || from > to || port->i < 1 || port->i > 65535)
        return ERR_INTERNAL;
    struct redis_address at = {.port = (int)port->i};
    struct str name =
        host->type == REDIS_STRING && host->s.len ? host->s : str_of(asked->url.at[0].host);
    if (!str_copy(at.host, sizeof at.host, name))
        return ERR_INTERNAL;
    int place = node_at(cl, &at);
    if (place == NOBODY)
        return ERR_OVERLOAD;
    memset(owner + from, place, (size_t)(to - from + 1));
    return 0;
}

static int take_map(struct cluster *cl, const struct redis_reply *reply,
                    const struct redis_conn *asked)
{
    int8_t owner[REDIS_SLOTS];
    memset(owner, NOBODY, sizeof owner);
    if (reply->type != REDIS_ARRAY || reply->n == 0)
        return ERR_INTERNAL; /* this one is not, or not yet, in a cluster with slots */
    for (size_t i = 0; i < reply->n; i++) {
        int rc = take_range(cl, reply->items[i], asked, owner);
        if (rc)
            return rc;
    }
    int before = cluster_masters(cl);
    memcpy(cl->owner, owner, sizeof owner);
    for (int i = 0; i < CLUSTER_NODES_MAX; i++)
        cl->nodes[i].master = cl->nodes[i].conn && memchr(owner, i, sizeof owner) != NULL;
    if (cluster_masters(cl) != before)
        log_info("redis cluster", LOG_Z("link", cl->link), LOG_I("masters", cluster_masters(cl)),
                 LOG_B("all_slots", all_slots_known(cl)));
    loop_defer(cl->loop, &cl->sweep);
    return 0;
}

static void on_map(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct cluster *cl = container_of(c, struct cluster, map);
    static struct log_limit limit;
    uint64_t suppressed;
    cl->asking = false;
    if (cl->closing)
        return;
    if (rc == 0)
        rc = take_map(cl, reply, c->conn);
    metric_add(rc == 0 ? cl->metrics.maps_ok : cl->metrics.maps_failed, 1);
    int64_t now = loop_now_us(cl->loop);
    if (rc) {
        if (log_allowed(&limit, now, &suppressed))
            log_warn("redis cluster does not tell its slots", LOG_Z("link", cl->link),
                     LOG_Z("error", err_name(rc)), LOG_I("suppressed", (int64_t)suppressed));
        if (++cl->failures % servers(cl) == 0) /* nobody that is known answers */
            add_seeds(cl);
        ask_at(cl, now + GAP_US);
        return;
    }
    cl->failures = 0;
    cl->was_whole |= whole(cl);
    if (cl->stale)
        ask_soon(cl);
    else if (!whole(cl))
        ask_at(cl, now + UNSURE_US);
}

static void on_encode_map(struct redis_call *c, struct redis_writer *w)
{
    (void)c;
    redis_put(w, STR("CLUSTER"));
    redis_put(w, STR("SLOTS"));
}

/* The next one by turns, if it can be one that is connected. */
static struct redis_conn *whom_to_ask(struct cluster *cl)
{
    struct redis_conn *down = NULL;
    for (int i = 0; i < CLUSTER_NODES_MAX; i++) {
        cl->turn = (cl->turn + 1) % CLUSTER_NODES_MAX;
        struct redis_conn *conn = cl->nodes[cl->turn].conn;
        if (conn && conn->phase == LINK_UP)
            return conn;
        down = conn ? conn : down;
    }
    return down;
}

static void on_timer(struct timer *t)
{
    struct cluster *cl = container_of(t, struct cluster, timer);
    struct redis_conn *conn = whom_to_ask(cl);
    cl->asked_us = loop_now_us(cl->loop);
    cl->asking = true;
    cl->stale = false;
    cl->map = (struct redis_call){.name = "cluster",
                                  .args = 2,
                                  .on_encode = on_encode_map,
                                  .on_reply = on_map,
                                  .deadline_us = clock_mono_us() + conn->config.dial_us};
    pipeline_send(conn, &cl->map);
}

static void on_link(struct redis_conn *r, bool up)
{
    struct cluster *cl = r->owner;
    if (!up)
        ask_soon(cl);
    else
        cl->was_whole |= whole(cl);
}

/* --- calls --- */

/* "MOVED slot host:port", "ASK slot host:port" */
static int told_place(struct cluster *cl, const struct redis_conn *r, struct str text, int *slot)
{
    struct str word, at;
    struct redis_address address;
    int64_t n;
    at = str_split(str_split(text, ' ', &word), ' ', &word);
    if (parse_i64(word, 0, REDIS_SLOTS - 1, &n) || redis_address_parse(at, &address))
        return NOBODY;
    if (!address.host[0])
        str_copy(address.host, sizeof address.host, str_of(r->url.at[0].host));
    *slot = (int)n;
    return node_at(cl, &address);
}

static bool on_refused(struct redis_conn *r, struct redis_call *c, const struct redis_reply *reply)
{
    struct cluster *cl = r->owner;
    bool ask = str_starts(reply->s, STR("ASK "));
    if (str_starts(reply->s, STR("CLUSTERDOWN ")))
        ask_soon(cl);
    if (!ask && !str_starts(reply->s, STR("MOVED ")))
        return false;
    int slot, place = told_place(cl, r, reply->s, &slot);
    if (place != NOBODY && !ask) {
        cl->owner[slot] = (int8_t)place;
        cl->nodes[place].master = true;
    }
    if (!ask)
        ask_soon(cl);
    if (place == NOBODY || c->hops == CLUSTER_HOPS) {
        metric_add(cl->metrics.redirects_refused, 1);
        return false;
    }
    metric_add(ask ? cl->metrics.redirects_ask : cl->metrics.redirects_moved, 1);
    c->hops++;
    pipeline_move(c, cl->nodes[place].conn, ask);
    return true;
}

/* There is always one. */
static struct redis_conn *any(const struct cluster *cl)
{
    int i = 0;
    while (!cl->nodes[i].conn)
        i++;
    return cl->nodes[i].conn;
}

static struct redis_conn *nth_master(struct cluster *cl, int n)
{
    for (int i = 0; i < CLUSTER_NODES_MAX; i++) {
        if (cl->nodes[i].master && --n == 0)
            return cl->nodes[i].conn;
    }
    return NULL;
}

void cluster_send(struct cluster *cl, struct redis_call *c)
{
    struct redis_conn *known = NULL;
    if (c->server) {
        known = nth_master(cl, c->server);
    } else {
        c->conn = any(cl); /* on_encode may look at a clock; for the key's sake, at any */
        int slot = writer_slot(c);
        if (slot >= 0 && cl->owner[slot] != NOBODY)
            known = cl->nodes[(int)cl->owner[slot]].conn;
    }
    /* One that is not the slot's says whose it is. */
    pipeline_send(known ? known : any(cl), c);
}

bool cluster_reaches(const struct cluster *cl, struct str key)
{
    int place = cl->owner[redis_slot(key)];
    return (place == NOBODY ? any(cl) : cl->nodes[place].conn)->phase == LINK_UP;
}

int cluster_server(const struct cluster *cl, struct str key)
{
    return cl->owner[redis_slot(key)];
}

bool cluster_ready(const struct cluster *cl)
{
    return cl->was_whole && connected(cl) > 0;
}

/* --- life --- */

struct cluster *cluster_new(struct loop *l, const struct redis_config *c,
                            const struct redis_url *url)
{
    struct cluster *cl = calloc(1, sizeof *cl);
    if (!cl)
        return NULL;
    cl->loop = l;
    cl->url = *url;
    cl->config = *c;
    str_copy(cl->link, sizeof cl->link, str_of(c->metric_link ? c->metric_link : "redis"));
    cl->config.metric_link = cl->link;
    memset(cl->owner, NOBODY, sizeof cl->owner);
    redis_metrics_init(&cl->metrics, cl->link);
    cl->timer.on_fire = on_timer;
    list_init(&cl->sweep.link);
    cl->sweep.on_run = on_sweep;
    add_seeds(cl);
    if (!whom_to_ask(cl)) {
        free(cl);
        return NULL;
    }
    cl->asked_us = -GAP_US;
    ask_soon(cl);
    return cl;
}

void cluster_free(struct cluster *cl)
{
    cl->closing = true;
    sched_clear(loop_sched(cl->loop), &cl->timer);
    loop_defer_cancel(&cl->sweep);
    /* What completes on one may send to another: all have to be at rest before one goes. */
    for (bool rest = false; !rest;) {
        for (int i = 0; i < CLUSTER_NODES_MAX; i++) {
            if (cl->nodes[i].conn)
                conn_close(cl->nodes[i].conn);
        }
        rest = true;
        for (int i = 0; i < CLUSTER_NODES_MAX; i++)
            rest &= !cl->nodes[i].conn || conn_idle(cl->nodes[i].conn);
    }
    for (int i = 0; i < CLUSTER_NODES_MAX; i++) {
        if (cl->nodes[i].conn)
            conn_free(cl->nodes[i].conn);
    }
    free(cl);
}
