#include "adapter/rocketmq/config.h"

#include "base/err.h"
#include "base/panic.h"
#include "base/parse.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool split_address(struct str address, char host[RMQ_TARGET_MAX], int *port)
{
    struct str name;
    return parse_host_port(address, &name, port) == 0 && str_copy(host, RMQ_TARGET_MAX, name);
}

static Rmq__AddressScheme scheme_of(const char *host)
{
    struct in6_addr a;
    if (inet_pton(AF_INET, host, &a) == 1)
        return RMQ__ADDRESS_SCHEME__IPV4;
    return inet_pton(AF_INET6, host, &a) == 1 ? RMQ__ADDRESS_SCHEME__IPV6
                                              : RMQ__ADDRESS_SCHEME__DOMAIN_NAME;
}

/* The proxies; all of them are the access point, which a proxy in CLUSTER mode tells back as the
 * route. */
static int read_endpoints(struct rocketmq *mq, char *err, size_t err_cap)
{
    rmq__endpoints__init(&mq->access_point);
    struct str rest = str_of(mq->c.endpoints);
    while (rest.len > 0) {
        struct str one;
        char host[RMQ_TARGET_MAX];
        int port;
        rest = str_split(rest, ',', &one);
        if (mq->n_access == RMQ_CHANNELS_MAX || !split_address(one, host, &port)) {
            snprintf(err, err_cap,
                     "rocketmq: endpoint \"" STR_FMT "\" is no host:port, or one of "
                     "more than %d",
                     STR_ARG(one), RMQ_CHANNELS_MAX);
            return ERR_INVALID;
        }
        Rmq__Address *a = &mq->access_address[mq->n_access];
        rmq__address__init(a);
        a->host = strdup(host);
        a->has_port = true;
        a->port = port;
        if (!a->host)
            panic("rocketmq: no memory");
        mq->access_addresses[mq->n_access++] = a;
        mq->access_point.has_scheme = true;
        mq->access_point.scheme = scheme_of(host);
    }
    mq->access_point.n_addresses = (size_t)mq->n_access;
    mq->access_point.addresses = mq->access_addresses;
    if (mq->n_access == 0)
        snprintf(err, err_cap, "rocketmq: no endpoints");
    return mq->n_access ? 0 : ERR_INVALID;
}

static bool map_fits(const char *map)
{
    struct str rest = str_of(map);
    while (rest.len > 0) {
        struct str pair, told;
        char host[RMQ_TARGET_MAX];
        int port;
        rest = str_split(rest, ',', &pair);
        struct str reached = str_split(pair, '=', &told);
        if (!reached.ptr || !split_address(told, host, &port) ||
            !split_address(reached, host, &port) || reached.len >= RMQ_TARGET_MAX)
            return false;
    }
    return true;
}

static int check(const struct rocketmq_config *c, char *err, size_t err_cap)
{
    const char *wrong = NULL;
    if (strlen(c->endpoints) > 1024) /* they go into requests */
        wrong = "endpoints";
    else if (!rmq_name_fits(c->topic, RMQ_TOPIC_MAX))
        wrong = "topic";
    else if (c->consume && !rmq_name_fits(c->group, RMQ_GROUP_MAX))
        wrong = "group";
    else if (c->consume && !rmq_name_fits(c->dead_group, RMQ_GROUP_MAX))
        wrong = "dead_group";
    else if (!map_fits(c->endpoint_map))
        wrong = "endpoint_map";
    else if (!rmq_keys_fit(c->access_key, c->secret_key))
        wrong = "access_key or secret_key (both or none; no blank, comma or slash)";
    else if (c->max_sends < 1 || c->max_sends > 4096)
        wrong = "max_sends";
    else if (c->send_batch < 1 || c->send_batch > 1024)
        wrong = "send_batch";
    else if (c->consume && (c->max_in_hand < 1 || c->max_in_hand > 65536))
        wrong = "max_in_hand";
    else if (c->lease_us < 1000000 || c->poll_us < 100000 || c->request_us < 10000 ||
             c->refresh_us < 100000 || c->heartbeat_us < 100000)
        wrong = "a time";
    if (wrong)
        snprintf(err, err_cap, "rocketmq: %s is missing or out of bounds", wrong);
    return wrong ? ERR_INVALID : 0;
}

static const char *own(const char *z)
{
    char *copy = strdup(z ? z : "");
    if (!copy)
        panic("rocketmq: no memory");
    return copy;
}

int rmq_config_init(struct rocketmq *mq, const struct rocketmq_config *c, char *err, size_t err_cap)
{
    mq->c = *c;
    mq->c.endpoints = own(c->endpoints);
    mq->c.endpoint_map = own(c->endpoint_map);
    mq->c.namesrv = own(c->namesrv);
    mq->c.topic = own(c->topic);
    mq->c.group = own(c->group);
    mq->c.dead_group = own(c->dead_group);
    mq->c.access_key = own(c->access_key);
    mq->c.secret_key = own(c->secret_key);
    mq->c.ca_file = own(c->ca_file);
    struct {
        int64_t *v;
        int64_t value;
    } times[] = {{&mq->c.lease_us, 15000000},
                 {&mq->c.poll_us, 5000000},
                 {&mq->c.request_us, 3000000},
                 {&mq->c.refresh_us, 30000000},
                 {&mq->c.heartbeat_us, 10000000}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (*times[i].v == 0)
            *times[i].v = times[i].value;
    }
    if (mq->c.max_sends == 0)
        mq->c.max_sends = 4;
    if (mq->c.send_batch == 0)
        mq->c.send_batch = 32;
    mq->signer.access_key = mq->c.access_key;
    mq->signer.secret_key = mq->c.secret_key;
    if (gethostname(mq->hostname, sizeof mq->hostname - 1) != 0 || !mq->hostname[0])
        str_copy(mq->hostname, sizeof mq->hostname, STR("localhost"));
    int rc = check(&mq->c, err, err_cap);
    return rc ? rc : read_endpoints(mq, err, err_cap);
}

void rmq_config_deinit(struct rocketmq *mq)
{
    const char *const owned[] = {mq->c.endpoints,  mq->c.endpoint_map, mq->c.namesrv,
                                 mq->c.topic,      mq->c.group,        mq->c.dead_group,
                                 mq->c.access_key, mq->c.secret_key,   mq->c.ca_file};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        free((void *)(uintptr_t)owned[i]);
    for (int i = 0; i < mq->n_access; i++)
        free(mq->access_address[i].host);
}
