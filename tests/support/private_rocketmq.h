/* A RocketMQ of the test's own (scripts/rocketmq): children of this process, on free ports, in a
 * directory of its own. Dies with the process, whatever happens to it. A start takes 6 s of both
 * cores or more: make one for a whole suite, and topics and groups for each test. Under CTest only
 * one may run at a time: the test has the property RESOURCE_LOCK rocketmq. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct private_rocketmq {
    char dir[64];
    char endpoints[32], namesrv[32], broker[32]; /* 127.0.0.1:PORT; broker: its remoting port */
    char ca_file[96];                            /* TLS is on the port of endpoints, too */
    char access_key[32], secret_key_file[96];    /* "" without --auth */
    char topic[64], group[64], dead_group[64];   /* that are there from the start */
    char options[1024];
    bool cluster;
    pid_t namesrv_pid, broker_pid, proxy_pid; /* 0: not running; broker: only with --cluster */
};

/* Starts it and waits until a send works. options: of `scripts/rocketmq prepare` (--fast,
 * --cluster,
 * --auth, --version V, --topic NAME:TYPE:QUEUES, --group NAME:RETRIES, …), NULL-terminated, or
 * NULL. Aborts the test program when that fails. */
void private_rocketmq_start(struct private_rocketmq *r, const char *const *options);
void private_rocketmq_kill(struct private_rocketmq *r);       /* kill -9 of the broker */
void private_rocketmq_kill_proxy(struct private_rocketmq *r); /* LOCAL: the same process */
/* After a kill: the same ports, the same messages; waits until a send works. */
void private_rocketmq_again(struct private_rocketmq *r);
void private_rocketmq_wipe(struct private_rocketmq *r); /* kill -9, and back with nothing stored */
void private_rocketmq_freeze(struct private_rocketmq *r); /* the broker: SIGSTOP */
void private_rocketmq_thaw(struct private_rocketmq *r);
void private_rocketmq_stop(struct private_rocketmq *r); /* and removes its directory */

/* More of them while it runs: NAME[:TYPE[:QUEUES]], NAME[:RETRIES]. */
void private_rocketmq_make_topic(struct private_rocketmq *r, const char *spec);
void private_rocketmq_make_group(struct private_rocketmq *r, const char *spec);

/* One message from elsewhere. */
void private_rocketmq_send(struct private_rocketmq *r, const char *topic, const char *body);
/* The answer of the broker's remoting port to CODE; words: KEY=VALUE, separated by blanks. NULL if
 * it is not OK. Valid until the next call. */
const char *private_rocketmq_remoting(struct private_rocketmq *r, int code, const char *words);
