#include "support/private_topology.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MASTERS = 3, WORDS = 32 };

static struct private_redis *first, others[MASTERS - 1];
static struct private_redis sentinel; /* only dir and pid */

static void require(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "private topology: %s\n", what);
    abort();
}

static void stop_all(void)
{
    private_redis_stop(first);
    for (int i = 0; i < MASTERS - 1; i++) {
        if (others[i].pid)
            private_redis_stop(&others[i]);
    }
    if (sentinel.pid)
        private_redis_stop(&sentinel);
}

/* Nobody's just now. */
static int free_port(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(bind(fd, (struct sockaddr *)&in, sizeof in) == 0 &&
                getsockname(fd, (struct sockaddr *)&in, &len) == 0,
            "no port");
    close(fd);
    return ntohs(in.sin_port);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* It listens on TCP as well; bus: the cluster's port, or 0. */
static void start_node(struct private_redis *r, int port, int bus, const char *const *more)
{
    char port_text[8], bus_text[8];
    snprintf(port_text, sizeof port_text, "%d", port);
    snprintf(bus_text, sizeof bus_text, "%d", bus);
    const char *words[WORDS] = {"--port", port_text, "--bind", "127.0.0.1"};
    int n = 4;
    if (bus) {
        const char *cluster[] = {"--cluster-enabled", "yes", "--cluster-port", bus_text};
        memcpy(words + n, cluster, sizeof cluster);
        n += 4;
    }
    for (; more && *more && n < WORDS - 1; more++)
        words[n++] = *more;
    private_redis_start(r, words);
}

static void command_ok(struct private_redis *r, const char *command)
{
    require(strcmp(private_redis_text(r, command, NULL), "OK") == 0, command);
}

static void start_cluster(struct private_redis *r, const char *const *more)
{
    struct private_redis *nodes[MASTERS] = {r, &others[0], &others[1]};
    int ports[MASTERS], buses[MASTERS];
    char text[96];
    for (int i = 0; i < MASTERS; i++) {
        ports[i] = free_port();
        buses[i] = free_port();
        start_node(nodes[i], ports[i], buses[i], more);
        snprintf(text, sizeof text, "CLUSTER ADDSLOTSRANGE %d %d", 16384 * i / MASTERS,
                 16384 * (i + 1) / MASTERS - 1);
        command_ok(nodes[i], text);
        snprintf(text, sizeof text, "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
        command_ok(nodes[i], text);
        snprintf(text, sizeof text, "CLUSTER MEET 127.0.0.1 %d %d", ports[0], buses[0]);
        if (i > 0)
            command_ok(nodes[i], text);
    }
    for (int i = 0; i < MASTERS; i++) {
        for (int n = 0; !strstr(private_redis_text(nodes[i], "CLUSTER INFO"), "cluster_state:ok");
             n++) {
            require(n < 6000, "no cluster");
            nap();
        }
    }
    /* The first one is not told: it is found. */
    snprintf(r->url, sizeof r->url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d", ports[1],
             ports[2]);
}

static void run_sentinel(const char *conf)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    execlp("redis-server", "redis-server", conf, "--sentinel", (char *)NULL);
    _exit(127);
}

static void await_sentinel(int port)
{
    redisContext *c = redisConnect("127.0.0.1", port);
    for (int n = 0; !c || c->err; n++) {
        require(n < 6000, "no sentinel");
        nap();
        if (c)
            redisFree(c);
        c = redisConnect("127.0.0.1", port);
    }
    redisFree(c);
}

static void start_sentinel(struct private_redis *r, const char *const *more)
{
    int master = free_port(), port = free_port();
    char conf[96];
    start_node(r, master, 0, more);
    strcpy(sentinel.dir, "/tmp/seckill-sentinel-XXXXXX");
    require(mkdtemp(sentinel.dir) != NULL, "mkdtemp");
    snprintf(conf, sizeof conf, "%s/conf", sentinel.dir);
    FILE *f = fopen(conf, "w");
    require(f != NULL, conf);
    fprintf(f, "port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor sale 127.0.0.1 %d 1\n", port,
            sentinel.dir, master);
    require(fclose(f) == 0, conf);
    sentinel.pid = fork();
    require(sentinel.pid >= 0, "fork");
    if (sentinel.pid == 0)
        run_sentinel(conf);
    await_sentinel(port);
    snprintf(r->url, sizeof r->url, "redis+sentinel://127.0.0.1:%d/sale", port);
}

void private_topology_start(struct private_redis *r, enum private_topology t,
                            const char *const *more)
{
    first = r;
    if (t == TOPOLOGY_CLUSTER)
        start_cluster(r, more);
    else if (t == TOPOLOGY_SENTINEL)
        start_sentinel(r, more);
    else
        private_redis_start(r, more);
    atexit(stop_all);
}
