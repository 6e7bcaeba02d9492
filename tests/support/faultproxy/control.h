/* The control server: HTTP/1.1 on a loopback port, one request of a connection at a time, answered
 * at once by a function. Our own and not adapter/http, which knows no DELETE. */
#pragma once

#include "base/str.h"
#include "loop/loop.h"

struct control_answer {
    int status;
    char *json; /* heap, freed by the server; NULL: no body */
};

struct control;

struct control_handler {
    struct control_answer (*on_request)(struct control_handler *h, const char *method,
                                        const char *path, struct str body);
};

/* NULL with a message. *port: what a port 0 became. */
struct control *control_new(struct loop *l, const char *listen, struct control_handler *h,
                            int *port, char *err, size_t err_cap);
void control_free(struct control *c);
