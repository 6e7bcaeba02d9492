#include "support/private_redis.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void give_up(const char *what)
{
    fprintf(stderr, "private redis: %s: %s\n", what, strerror(errno));
    abort();
}

static void run_child(const struct private_redis *r, const char *const *more)
{
    const char *argv[64] = {"redis-server",
                            "--port",
                            "0",
                            "--unixsocket",
                            r->socket,
                            "--dir",
                            r->dir,
                            "--appendonly",
                            "yes",
                            "--appendfsync",
                            "always",
                            "--save",
                            "",
                            "--maxmemory-policy",
                            "noeviction"};
    int n = 15;
    for (; more && *more && n < 63; more++)
        argv[n++] = *more;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    execvp(argv[0], (char *const *)(void *)argv);
    _exit(127);
}

static bool answers(struct private_redis *r)
{
    redisContext *c = redisConnectUnix(r->socket);
    bool ok = c && !c->err;
    if (ok) {
        redisReply *reply = redisCommand(c, "PING");
        /* An error is an answer too (a password is set), but for LOADING. */
        ok = reply && strncmp(reply->str, "LOADING", 7) != 0;
        freeReplyObject(reply);
    }
    if (c)
        redisFree(c);
    return ok;
}

void private_redis_again(struct private_redis *r, const char *const *more)
{
    r->pid = fork();
    if (r->pid < 0)
        give_up("fork");
    if (r->pid == 0)
        run_child(r, more);
    for (int i = 0; i < 2000; i++) {
        if (answers(r))
            return;
        if (waitpid(r->pid, NULL, WNOHANG) == r->pid)
            give_up("redis-server ended at once");
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    give_up("does not answer");
}

void private_redis_start(struct private_redis *r, const char *const *more)
{
    memset(r, 0, sizeof *r);
    strcpy(r->dir, "/tmp/seckill-redis-XXXXXX");
    if (!mkdtemp(r->dir))
        give_up("mkdtemp");
    snprintf(r->socket, sizeof r->socket, "%s/redis.sock", r->dir);
    snprintf(r->url, sizeof r->url, "unix://%s", r->socket);
    private_redis_again(r, more);
}

static void end(struct private_redis *r, int signo)
{
    if (r->client)
        redisFree(r->client);
    r->client = NULL;
    if (r->pid <= 0)
        return;
    kill(r->pid, signo);
    while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    r->pid = 0;
}

void private_redis_kill(struct private_redis *r)
{
    end(r, SIGKILL);
    unlink(r->socket);
}

void private_redis_freeze(struct private_redis *r)
{
    int status;
    kill(r->pid, SIGSTOP);
    if (waitpid(r->pid, &status, WUNTRACED) != r->pid || !WIFSTOPPED(status))
        give_up("does not stop");
}

void private_redis_thaw(struct private_redis *r)
{
    kill(r->pid, SIGCONT);
}

void private_redis_stop(struct private_redis *r)
{
    end(r, SIGKILL); /* its data are not wanted any more */
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", r->dir);
    if (system(command) != 0)
        give_up(command);
}

/* "MOVED slot host:port": once more there, by a connection for this command alone. */
static redisReply *follow(const char *moved, const char *format, va_list ap)
{
    char host[64];
    int port;
    if (sscanf(moved, "MOVED %*d %63[^:]:%d", host, &port) != 2)
        give_up(moved);
    redisContext *c = redisConnect(host, port);
    redisReply *reply = c ? redisvCommand(c, format, ap) : NULL;
    if (!reply)
        give_up(format);
    redisFree(c);
    return reply;
}

static redisReply *command(struct private_redis *r, const char *format, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    if (!r->client) {
        r->client = redisConnectUnix(r->socket);
        if (r->client && r->password[0])
            freeReplyObject(redisCommand(r->client, "AUTH %s", r->password));
    }
    redisReply *reply = r->client ? redisvCommand(r->client, format, ap) : NULL;
    if (!reply)
        give_up(format);
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "MOVED ", 6) == 0) {
        redisReply *elsewhere = follow(reply->str, format, again);
        freeReplyObject(reply);
        reply = elsewhere;
    }
    va_end(again);
    return reply;
}

redisReply *private_redis_command(struct private_redis *r, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    redisReply *reply = command(r, format, ap);
    va_end(ap);
    return reply;
}

long long private_redis_int(struct private_redis *r, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    redisReply *reply = command(r, format, ap);
    va_end(ap);
    long long n = reply->type == REDIS_REPLY_INTEGER  ? reply->integer
                  : reply->type == REDIS_REPLY_STRING ? atoll(reply->str)
                                                      : -1;
    freeReplyObject(reply);
    return n;
}

const char *private_redis_text(struct private_redis *r, const char *format, ...)
{
    static char text[4096];
    va_list ap;
    va_start(ap, format);
    redisReply *reply = command(r, format, ap);
    va_end(ap);
    snprintf(text, sizeof text, "%s", reply->str ? reply->str : "");
    freeReplyObject(reply);
    return text;
}
