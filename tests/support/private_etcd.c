#include "support/private_etcd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void give_up(const char *what)
{
    fprintf(stderr, "private etcd: %s: %s\n", what, strerror(errno));
    abort();
}

/* etcd does not tell which port it got for 0. */
static int free_port(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        give_up("no free port");
    close(fd);
    return ntohs(a.sin_port);
}

static void run_child(const struct private_etcd *e)
{
    char client[64], peer[64], cluster[80];
    snprintf(client, sizeof client, "http://127.0.0.1:%d", e->port);
    snprintf(peer, sizeof peer, "http://127.0.0.1:%d", e->peer_port);
    snprintf(cluster, sizeof cluster, "test=%s", peer);
    const char *argv[] = {"etcd",  "--name",
                          "test",  "--data-dir",
                          e->dir,  "--listen-client-urls",
                          client,  "--advertise-client-urls",
                          client,  "--listen-peer-urls",
                          peer,    "--initial-advertise-peer-urls",
                          peer,    "--initial-cluster",
                          cluster, "--logger",
                          "zap",   "--unsafe-no-fsync",
                          NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
    execvp(argv[0], (char *const *)(void *)argv);
    _exit(127);
}

static bool healthy(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval tv = {.tv_sec = 2};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    char got[2048];
    size_t n = 0;
    const char ask[] = "GET /health HTTP/1.0\r\n\r\n";
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
        send(fd, ask, sizeof ask - 1, MSG_NOSIGNAL) > 0) {
        for (ssize_t got_n; n < sizeof got - 1; n += (size_t)got_n) {
            got_n = recv(fd, got + n, sizeof got - 1 - n, 0);
            if (got_n <= 0)
                break;
        }
    }
    got[n] = 0;
    close(fd);
    return strstr(got, "\"health\":\"true\"") != NULL;
}

/* False: it ended by itself, as when somebody else took a port in between. */
static bool run(struct private_etcd *e)
{
    e->pid = fork();
    if (e->pid < 0)
        give_up("fork");
    if (e->pid == 0)
        run_child(e);
    for (int i = 0; i < 3000; i++) {
        if (waitpid(e->pid, NULL, WNOHANG) == e->pid) {
            e->pid = 0;
            return false;
        }
        if (healthy(e->port))
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    errno = ETIMEDOUT;
    give_up("does not become healthy");
    return false;
}

void private_etcd_again(struct private_etcd *e)
{
    if (!run(e))
        give_up("ended at once");
}

static void remove_dir(const struct private_etcd *e)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", e->dir);
    if (system(command) != 0)
        give_up(command);
}

void private_etcd_start(struct private_etcd *e)
{
    for (int tries = 0; tries < 5; tries++) {
        memset(e, 0, sizeof *e);
        strcpy(e->dir, "/tmp/seckill-etcd-XXXXXX");
        if (!mkdtemp(e->dir))
            give_up("mkdtemp");
        e->port = free_port();
        e->peer_port = free_port();
        snprintf(e->target, sizeof e->target, "127.0.0.1:%d", e->port);
        if (run(e))
            return;
        remove_dir(e);
    }
    give_up("does not start");
}

void private_etcd_kill(struct private_etcd *e)
{
    if (e->pid <= 0)
        return;
    kill(e->pid, SIGKILL);
    while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    e->pid = 0;
}

void private_etcd_freeze(struct private_etcd *e)
{
    int status;
    kill(e->pid, SIGSTOP);
    if (waitpid(e->pid, &status, WUNTRACED) != e->pid || !WIFSTOPPED(status))
        give_up("does not stop");
}

void private_etcd_thaw(struct private_etcd *e)
{
    kill(e->pid, SIGCONT);
}

void private_etcd_stop(struct private_etcd *e)
{
    private_etcd_kill(e);
    remove_dir(e);
}
