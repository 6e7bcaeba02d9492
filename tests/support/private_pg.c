#include "support/private_pg.h"

#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIN "/usr/lib/postgresql/15/bin/"
#define ARGS_MAX 32

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "private_pg: %s: %s\n", what, detail);
    abort();
}

/* exec takes char *, though it changes nothing. */
static void replace_process(const char *const argv[])
{
    char *args[ARGS_MAX];
    int n = 0;
    while ((args[n] = argv[n] ? strdup(argv[n]) : NULL))
        n++;
    execvp(args[0], args);
    _exit(127);
}

static int run(const char *const argv[])
{
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        replace_process(argv);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

/* How a command becomes postgres's: put before it, into argv at n; the new n. */
static int as_postgres(const char **argv, int n, const char *dir)
{
    static char user[32], group[32];
    static int namespaces = -1;
    if (getuid() != 0)
        return n;
    struct passwd *pw = getpwnam("postgres");
    if (!pw)
        die("no such user", "postgres");
    if (namespaces < 0) {
        const char *probe[] = {"unshare", "--user", "true", NULL};
        namespaces = run(probe) == 0;
    }
    if (namespaces) {
        snprintf(user, sizeof user, "--map-user=%d", (int)pw->pw_uid);
        snprintf(group, sizeof group, "--map-group=%d", (int)pw->pw_gid);
        argv[n++] = "unshare";
        argv[n++] = "--user";
        argv[n++] = user;
        argv[n++] = group;
    } else {
        if (chown(dir, pw->pw_uid, pw->pw_gid) != 0)
            die("chown", dir);
        snprintf(user, sizeof user, "--reuid=%d", (int)pw->pw_uid);
        snprintf(group, sizeof group, "--regid=%d", (int)pw->pw_gid);
        argv[n++] = "setpriv";
        argv[n++] = user;
        argv[n++] = group;
        argv[n++] = "--clear-groups";
    }
    return n;
}

/* Starts a server of ours behind the tether, with its output in dir/log, and waits until it takes
 * connections. */
static void start(struct private_pg *p, const char *signal_name, const char *const server[])
{
    const char *argv[ARGS_MAX];
    int n = 0, in[2], out[2];
    argv[n++] = SECKILL_SOURCE_DIR "/tests/support/tether.sh";
    argv[n++] = signal_name;
    n = as_postgres(argv, n, p->dir);
    while ((argv[n++] = *server++))
        ;
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        die("pipe", "");
    p->tether = fork();
    if (p->tether == 0) {
        char log[96];
        snprintf(log, sizeof log, "%s/log", p->dir);
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(open(log, O_WRONLY | O_CREAT | O_APPEND, 0666), 2);
        replace_process(argv);
    }
    close(in[0]);
    close(out[1]);
    p->hold = in[1];
    FILE *f = fdopen(out[0], "r");
    if (fscanf(f, "%d", &p->server) != 1)
        die("cannot start", argv[0]);
    fclose(f);
    for (int i = 0; PQping(p->conninfo) != PQPING_OK; i++) {
        if (i > 3000 || waitpid(p->tether, NULL, WNOHANG) != 0)
            die("did not come up, see the log in", p->dir);
        poll(NULL, 0, 10);
    }
}

void private_pg_up(struct private_pg *p)
{
    char data[96], sockets[96];
    snprintf(data, sizeof data, "%s/data", p->dir);
    snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", p->dir);
    const char *argv[] = {BIN "postgres",       "-D", data,    "-c",
                          "listen_addresses=",  "-c", sockets, "-c",
                          "max_connections=64", NULL};
    start(p, "QUIT", argv);
}

void private_bouncer_start(struct private_pg *p, const struct private_pg *behind)
{
    *p = (struct private_pg){.dir = "/tmp/skpg-XXXXXX"};
    if (!mkdtemp(p->dir))
        die("mkdtemp", p->dir);
    snprintf(p->conninfo, sizeof p->conninfo, "host=%s port=6432 user=seckill dbname=postgres",
             p->dir);
    char ini[96];
    snprintf(ini, sizeof ini, "%s/ini", p->dir);
    FILE *f = fopen(ini, "w");
    if (!f)
        die("cannot write", ini);
    fprintf(f,
            "[databases]\npostgres = host=%s user=seckill\n[pgbouncer]\npool_mode = "
            "transaction\nauth_type = any\n"
            "listen_addr =\nlisten_port = 6432\nunix_socket_dir = %s\ndefault_pool_size = 3\n",
            behind->dir, p->dir);
    fclose(f);
    const char *argv[] = {"/usr/sbin/pgbouncer", ini, NULL};
    start(p, "INT", argv);
}

void private_pg_start(struct private_pg *p)
{
    *p = (struct private_pg){.dir = "/tmp/skpg-XXXXXX"};
    if (!mkdtemp(p->dir))
        die("mkdtemp", p->dir);
    snprintf(p->conninfo, sizeof p->conninfo, "host=%s user=seckill dbname=postgres", p->dir);
    char data[96];
    const char *argv[ARGS_MAX];
    snprintf(data, sizeof data, "%s/data", p->dir);
    int n = as_postgres(argv, 0, p->dir);
    argv[n++] = SECKILL_SOURCE_DIR "/tests/support/pg_cluster.sh";
    argv[n++] = data;
    argv[n] = NULL;
    if (run(argv) != 0)
        die("no cluster was made in", p->dir);
    private_pg_up(p);
}

void private_pg_down(struct private_pg *p)
{
    close(p->hold); /* the tether sends QUIT */
    waitpid(p->tether, NULL, 0);
}

void private_pg_stop(struct private_pg *p)
{
    private_pg_down(p);
    const char *argv[] = {"rm", "-rf", p->dir, NULL};
    run(argv);
}
