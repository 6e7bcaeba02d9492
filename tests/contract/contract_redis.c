#include "contract_redis.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
    fprintf(stderr, "contract_redis: %s\n", what);
    abort();
}

void contract_redis_start(struct contract_redis *r)
{
    char socket[96];
    strcpy(r->dir, "/tmp/seckill-redis-XXXXXX");
    if (!mkdtemp(r->dir))
        die("mkdtemp");
    snprintf(socket, sizeof socket, "%s/s", r->dir);
    snprintf(r->url, sizeof r->url, "unix://%s", socket);
    r->pid = fork();
    if (r->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stdout))
            _exit(126);
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket, "--dir",
               r->dir, "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction",
               "--loglevel", "warning", (char *)NULL);
        _exit(127);
    }
    for (int tries = 0; tries < 1000; tries++) {
        r->c = redisConnectUnix(socket);
        if (r->c && !r->c->err)
            return;
        if (r->c)
            redisFree(r->c);
        if (waitpid(r->pid, NULL, WNOHANG) == r->pid)
            die("redis-server ended");
        poll(NULL, 0, 10); /* until it listens: there is nothing to wait on but the file */
    }
    die("redis-server does not listen");
}

void contract_redis_stop(struct contract_redis *r)
{
    char command[128];
    redisFree(r->c);
    kill(r->pid, SIGTERM);
    waitpid(r->pid, NULL, 0);
    snprintf(command, sizeof command, "rm -rf '%s'", r->dir);
    if (system(command) != 0)
        die(command);
}

redisReply *contract_redis_do(struct contract_redis *r, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    redisReply *reply = redisvCommand(r->c, format, ap);
    va_end(ap);
    if (!reply)
        die(r->c->errstr);
    return reply;
}

long long contract_redis_int(struct contract_redis *r, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    redisReply *reply = redisvCommand(r->c, format, ap);
    va_end(ap);
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        die(reply ? reply->str : r->c->errstr);
    long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}
