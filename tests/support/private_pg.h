/* A PostgreSQL of the test's own, below /tmp, on a Unix socket; it ends with the test, however that
 * ends. As root it runs in a user namespace as `postgres`, or through setpriv where there are none.
 */
#pragma once

#include <stdbool.h>

struct private_pg {
    char dir[64];
    char conninfo[128];
    int server; /* pid of postgres */
    int tether; /* pid of tether.sh, our child */
    int hold;   /* write end of its standard input */
};

/* A new cluster (pg_cluster.sh), started. Aborts with a message when it cannot. */
void private_pg_start(struct private_pg *p);
/* Immediate stop (SIGQUIT, as a crash but without the shared memory left over), and up again. */
void private_pg_down(struct private_pg *p);
void private_pg_up(struct private_pg *p);
/* A PgBouncer in transaction mode before it, with three server connections; stopped with
 * private_pg_stop. */
void private_bouncer_start(struct private_pg *p, const struct private_pg *behind);
/* Stops and removes everything. */
void private_pg_stop(struct private_pg *p);
