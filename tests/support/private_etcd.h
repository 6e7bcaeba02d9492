/* An etcd of the test's own: a child of this process, on free ports of 127.0.0.1, in a directory of
 * its own. Dies with the process, whatever happens to it. */
#pragma once

#include <sys/types.h>

struct private_etcd {
    char dir[64], target[32]; /* "127.0.0.1:port", gRPC without TLS */
    int port, peer_port;
    pid_t pid; /* 0: not running */
};

/* Starts it and waits until it is healthy. Aborts the test program when that fails. */
void private_etcd_start(struct private_etcd *e);
void private_etcd_kill(struct private_etcd *e);   /* SIGKILL: the data stay */
void private_etcd_again(struct private_etcd *e);  /* after kill: same place, same data */
void private_etcd_freeze(struct private_etcd *e); /* SIGSTOP, and waits until it stands still */
void private_etcd_thaw(struct private_etcd *e);
void private_etcd_stop(struct private_etcd *e); /* and removes its directory */
