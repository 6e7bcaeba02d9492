#include "support/private_rocketmq.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void give_up(const char *what)
{
    fprintf(stderr, "private rocketmq: %s\n", what);
    abort();
}

/* The words in COMMAND are ours: no quoting. */
static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int shell(const char *format, ...)
{
    char command[2048];
    va_list ap;
    va_start(ap, format);
    if ((size_t)vsnprintf(command, sizeof command, format, ap) >= sizeof command)
        give_up("a command is too long");
    va_end(ap);
    return system(command);
}

static void script(const struct private_rocketmq *r, const char *command, const char *more)
{
    if (shell("%s/scripts/rocketmq %s --dir %s %s </dev/null >%s/script.log 2>&1 || { cat "
              "%s/script.log >&2; false; }",
              SECKILL_SOURCE_DIR, command, r->dir, more, r->dir, r->dir) != 0)
        give_up(command);
}

static pid_t launch(const struct private_rocketmq *r, const char *part)
{
    char path[128], log[128];
    snprintf(path, sizeof path, "%s/bin/%s", r->dir, part);
    snprintf(log, sizeof log, "%s/log/%s.log", r->dir, part);
    pid_t pid = fork();
    if (pid < 0)
        give_up("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dup2(null, 0);
        dup2(out, 1);
        dup2(out, 2);
        execl(path, path, (char *)NULL);
        _exit(127);
    }
    return pid;
}

void private_rocketmq_again(struct private_rocketmq *r)
{
    if (!r->namesrv_pid)
        r->namesrv_pid = launch(r, "namesrv");
    if (r->cluster && !r->broker_pid)
        r->broker_pid = launch(r, "broker");
    if (r->cluster)
        script(r, "ready", "--broker-only");
    if (!r->proxy_pid)
        r->proxy_pid = launch(r, "proxy");
    script(r, "ready", "");
}

static void take(const struct private_rocketmq *r, const char *name, char *value, size_t cap)
{
    char command[256];
    snprintf(command, sizeof command, ". %s/env; printf %%s \"$SECKILL_ROCKETMQ_%s\"", r->dir,
             name);
    FILE *f = popen(command, "r");
    size_t n = f ? fread(value, 1, cap - 1, f) : 0;
    value[n] = 0;
    if (!f || pclose(f) != 0 || n == cap - 1)
        give_up(name);
}

static void prepare(const struct private_rocketmq *r, const char *more)
{
    if (shell("%s/scripts/rocketmq prepare --dir %s %s %s </dev/null >&2", SECKILL_SOURCE_DIR,
              r->dir, r->options, more) != 0)
        give_up("prepare");
}

void private_rocketmq_start(struct private_rocketmq *r, const char *const *options)
{
    memset(r, 0, sizeof *r);
    strcpy(r->dir, "/tmp/seckill-rocketmq-XXXXXX");
    if (!mkdtemp(r->dir))
        give_up("mkdtemp");
    for (; options && *options; options++) {
        size_t n = strlen(r->options), cap = sizeof r->options - n;
        if ((size_t)snprintf(r->options + n, cap, "'%s' ", *options) >= cap)
            give_up("too many options");
        r->cluster |= strcmp(*options, "--cluster") == 0;
    }
    prepare(r, "");
    take(r, "ENDPOINTS", r->endpoints, sizeof r->endpoints);
    take(r, "NAMESRV", r->namesrv, sizeof r->namesrv);
    take(r, "BROKER", r->broker, sizeof r->broker);
    take(r, "CERTIFICATE", r->ca_file, sizeof r->ca_file);
    take(r, "ACCESS_KEY", r->access_key, sizeof r->access_key);
    take(r, "SECRET_KEY_FILE", r->secret_key_file, sizeof r->secret_key_file);
    take(r, "TOPIC", r->topic, sizeof r->topic);
    take(r, "GROUP", r->group, sizeof r->group);
    take(r, "DEAD_GROUP", r->dead_group, sizeof r->dead_group);
    private_rocketmq_again(r);
}

static void end(pid_t *pid)
{
    if (*pid <= 0)
        return;
    kill(*pid, SIGKILL);
    while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *pid = 0;
}

void private_rocketmq_kill(struct private_rocketmq *r)
{
    end(r->cluster ? &r->broker_pid : &r->proxy_pid);
}

void private_rocketmq_kill_proxy(struct private_rocketmq *r)
{
    end(&r->proxy_pid);
}

static void end_all(struct private_rocketmq *r)
{
    end(&r->proxy_pid);
    end(&r->broker_pid);
    end(&r->namesrv_pid);
}

void private_rocketmq_wipe(struct private_rocketmq *r)
{
    char more[64];
    end_all(r);
    snprintf(more, sizeof more, "--wipe --base %s", strchr(r->namesrv, ':') + 1);
    prepare(r, more);
    private_rocketmq_again(r);
}

static pid_t broker(const struct private_rocketmq *r)
{
    return r->cluster ? r->broker_pid : r->proxy_pid;
}

void private_rocketmq_freeze(struct private_rocketmq *r)
{
    int status;
    kill(broker(r), SIGSTOP);
    if (waitpid(broker(r), &status, WUNTRACED) != broker(r) || !WIFSTOPPED(status))
        give_up("does not stop");
}

void private_rocketmq_thaw(struct private_rocketmq *r)
{
    kill(broker(r), SIGCONT);
}

void private_rocketmq_stop(struct private_rocketmq *r)
{
    end_all(r);
    if (shell("rm -rf %s", r->dir) != 0)
        give_up("its directory stays");
}

void private_rocketmq_make_topic(struct private_rocketmq *r, const char *spec)
{
    script(r, "topic", spec);
}

void private_rocketmq_make_group(struct private_rocketmq *r, const char *spec)
{
    script(r, "group", spec);
}

/* Words for the shell, so that rocketmq-wire speaks as root where there are users. */
static const char *as_root(const struct private_rocketmq *r)
{
    static char words[192];
    words[0] = 0;
    if (r->access_key[0])
        snprintf(words, sizeof words,
                 "ROCKETMQ_ACCESS_KEY=root ROCKETMQ_SECRET=$(cat %s/root.secret)", r->dir);
    return words;
}

void private_rocketmq_send(struct private_rocketmq *r, const char *topic, const char *body)
{
    if (shell("%s %s/scripts/rocketmq-wire send %s '%s' '%s' >/dev/null", as_root(r),
              SECKILL_SOURCE_DIR, strchr(r->endpoints, ':') + 1, topic, body) != 0)
        give_up("send");
}

const char *private_rocketmq_remoting(struct private_rocketmq *r, int code, const char *words)
{
    static char answer[65536];
    char command[1024];
    snprintf(command, sizeof command, "%s %s/scripts/rocketmq-wire remoting %s %d %s </dev/null",
             as_root(r), SECKILL_SOURCE_DIR, strchr(r->broker, ':') + 1, code, words);
    FILE *f = popen(command, "r");
    size_t n = f ? fread(answer, 1, sizeof answer - 1, f) : 0;
    answer[n] = 0;
    return f && pclose(f) == 0 ? answer : NULL;
}
