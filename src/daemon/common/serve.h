/* What the programs with data loops (threads that serve HTTP, each with a loop of its own) share.
 * The loops are made and freed on the main thread while they do not run. */
#pragma once

#include "adapter/http/server.h"
#include "daemon/settings.h"
#include <pthread.h>

struct serve_thread {
    /* set by the owner */
    struct loop *loop;
    int number; /* its name is data-NUMBER */
    /* internal */
    pthread_t thread;
    bool running;
};

/* Runs the loop on a thread of its own, which takes no signals (they are the control loop's). 0, or
 * ERR_OVERLOAD. */
int serve_thread_start(struct serve_thread *t);
/* Stops the loop and waits for its thread; harmless when it was never started. */
void serve_thread_stop(struct serve_thread *t);

/* A loop's share of a bound of the process: never less than all of it together. */
int serve_share(int64_t whole, int n_loops);
/* The buyers' port, which the loops share. NULL with a message in err. */
struct http_server *serve_listen(struct loop *l, const char *listen, const struct settings *s,
                                 int n_loops, struct http_service *service, char *err,
                                 size_t err_cap);
