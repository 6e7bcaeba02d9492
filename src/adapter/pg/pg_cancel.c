#include "adapter/pg/pg_cancel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define CANCELLERS_MAX 4

static atomic_int cancellers;

static void *cancel(void *arg)
{
    char err[256];
    PQcancel(arg, err, sizeof err);
    PQfreeCancel(arg);
    atomic_fetch_sub(&cancellers, 1);
    return NULL;
}

void pg_cancel_detached(PGconn *pg)
{
    if (atomic_fetch_add(&cancellers, 1) >= CANCELLERS_MAX) {
        atomic_fetch_sub(&cancellers, 1);
        return;
    }
    PGcancel *c = PQgetCancel(pg);
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 128 * 1024);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the program's, not this thread's */
    if (!c || pthread_create(&thread, &attr, cancel, c) != 0) {
        PQfreeCancel(c);
        atomic_fetch_sub(&cancellers, 1);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
}
