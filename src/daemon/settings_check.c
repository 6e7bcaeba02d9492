/* What a single setting's bounds cannot say. */
#include "daemon/settings.h"

#include "adapter/rocketmq/names.h"
#include "base/err.h"
#include "base/parse.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static int wrong(char *err, size_t err_cap, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int wrong(char *err, size_t err_cap, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err, err_cap, fmt, ap);
    va_end(ap);
    return ERR_INVALID;
}

static bool is_address(struct str s)
{
    struct str host;
    int port;
    return parse_host_port(s, &host, &port) == 0;
}

/* "host:port[,host:port…]"; pairs: "a=b[,…]" of such. */
static bool are_addresses(const char *text, bool pairs)
{
    struct str rest = str_of(text), word;
    while (rest.len) {
        rest = str_split(rest, ',', &word);
        if (pairs) {
            struct str told;
            struct str reached = str_split(word, '=', &told);
            if (!is_address(told))
                return false;
            word = reached;
        }
        if (!is_address(word))
            return false;
    }
    return true;
}

static int check_readable(const char *name, const char *path, char *err, size_t err_cap)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return wrong(err, err_cap, "%s: %s: %s", name, path, strerror(errno));
    fclose(f);
    return 0;
}

int settings_secret_key(const struct settings *s, char *dst, size_t cap, char *err, size_t err_cap)
{
    const char *path = s->rocketmq.secret_key_file;
    dst[0] = '\0';
    if (!path[0])
        return 0;
    FILE *f = fopen(path, "re");
    if (!f)
        return wrong(err, err_cap, "rocketmq.secret_key_file: %s: %s", path, strerror(errno));
    bool read = fgets(dst, (int)cap, f) != NULL;
    fclose(f);
    size_t n = read ? strcspn(dst, "\r\n") : 0;
    bool cut = read && ((dst[n] == '\0' && n == cap - 1) || n > RMQ_SECRET_KEY_MAX);
    dst[n] = '\0';
    if (n == 0 || cut) {
        dst[0] = '\0';
        return wrong(err, err_cap, "rocketmq.secret_key_file: %s: its first line is %s", path,
                     cut ? "too long for a secret" : "empty, or it cannot be read");
    }
    return 0;
}

static int check_files(const struct settings *s, char *err, size_t err_cap)
{
    char secret[CONF_STRING_MAX];
    int rc = settings_secret_key(s, secret, sizeof(secret), err, err_cap);
    explicit_bzero(secret, sizeof(secret));
    if (rc == 0 && s->rocketmq.ca_file[0])
        rc = check_readable("rocketmq.ca_file", s->rocketmq.ca_file, err, err_cap);
    return rc;
}

static int check_names(const struct settings *s, char *err, size_t err_cap)
{
    const struct {
        const char *setting, *name;
        size_t max;
    } names[] = {{"rocketmq.topic", s->rocketmq.topic, RMQ_TOPIC_MAX},
                 {"rocketmq.group", s->rocketmq.group, RMQ_GROUP_MAX},
                 {"rocketmq.dead_group", s->rocketmq.dead_group, RMQ_GROUP_MAX},
                 {"rocketmq.results_topic", s->rocketmq.results_topic, RMQ_TOPIC_MAX}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!rmq_name_fits(names[i].name, names[i].max))
            return wrong(err, err_cap,
                         "%s: \"%s\" is not of letters, digits and \"%%|_-\", at most %zu",
                         names[i].setting, names[i].name, names[i].max);
    }
    return 0;
}

static int check_rocketmq(const struct settings *s, char *err, size_t err_cap)
{
    if (!s->rocketmq.endpoints[0])
        return wrong(err, err_cap,
                     "rocketmq.endpoints: required with queue.kind rocketmq: host:port of a "
                     "proxy[,…]");
    if (!are_addresses(s->rocketmq.endpoints, false))
        return wrong(err, err_cap, "rocketmq.endpoints: \"%s\" is not host:port[,host:port…]",
                     s->rocketmq.endpoints);
    if (!are_addresses(s->rocketmq.endpoint_map, true))
        return wrong(err, err_cap, "rocketmq.endpoint_map: \"%s\" is not host:port=host:port[,…]",
                     s->rocketmq.endpoint_map);
    if (!are_addresses(s->rocketmq.namesrv, false))
        return wrong(err, err_cap, "rocketmq.namesrv: \"%s\" is not host:port[,host:port…]",
                     s->rocketmq.namesrv);
    int rc = check_names(s, err, err_cap);
    if (rc)
        return rc;
    if (!s->rocketmq.access_key[0] != !s->rocketmq.secret_key_file[0])
        return wrong(err, err_cap,
                     "rocketmq.access_key and rocketmq.secret_key_file go together: only %s is set",
                     s->rocketmq.access_key[0] ? "the first" : "the second");
    if (!rmq_access_key_fits(s->rocketmq.access_key))
        return wrong(err, err_cap,
                     "rocketmq.access_key: ASCII, no '/', ',' or space in it, at most %d",
                     RMQ_ACCESS_KEY_MAX);
    if (s->rocketmq.ca_file[0] && !s->rocketmq.tls)
        return wrong(err, err_cap, "rocketmq.ca_file is set, but rocketmq.tls is false");
    if (strcmp(s->rocketmq.topic, s->rocketmq.results_topic) == 0)
        return wrong(err, err_cap,
                     "rocketmq.results_topic: must be another topic than rocketmq.topic");
    if (strcmp(s->rocketmq.group, s->rocketmq.dead_group) == 0)
        return wrong(err, err_cap,
                     "rocketmq.dead_group: must be another group than rocketmq.group");
    return 0;
}

int settings_check(const struct settings *s, bool files, char *err, size_t err_cap)
{
    if (s->queue.kind != SETTINGS_QUEUE_ROCKETMQ)
        return 0; /* what is not used may be written down all the same */
    int rc = check_rocketmq(s, err, err_cap);
    return rc == 0 && files ? check_files(s, err, err_cap) : rc;
}
