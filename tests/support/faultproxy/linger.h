/* Sockets that are being closed: their end has been sent, and what still comes is read and dropped
 * for a second at most. A plain close would let the kernel answer it with a reset, which takes from
 * the peer what it has not read yet: the replies before the one that was dropped. */
#pragma once

#include "loop/loop.h"

enum { LINGERS_MAX = 1024 };

struct lingers {
    struct loop *loop;
    struct list all;
    int n;
};

void lingers_init(struct lingers *ls, struct loop *l);
void lingers_deinit(struct lingers *ls); /* closes them; the loop must run once more */
/* Takes over fd, which is attached to nothing. Beyond the bound it is closed at once. */
void linger(struct lingers *ls, int fd);
