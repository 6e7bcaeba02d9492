/* An asynchronous operation: embedded in the request struct of whoever starts it.
 *
 * Contract of every function that takes one: it never completes inside the call that submits it;
 * on_done is called exactly once, on the loop's thread that submitted it; until then the struct
 * stays where it is. To give up, ask the port's cancel: on_done still comes. rc: 0 or an outcome,
 * or an error that says whether the world changed (err.h). */
#pragma once

#include "base/list.h"
#include <stdint.h>

struct op {
    void (*on_done)(struct op *op, int rc);
    int64_t deadline_us; /* monotonic; the operation completes by then, if need be as unknown */
};

/* Room inside a port's operation for what the adapter needs to keep; the adapter asserts that it
 * fits. */
struct op_space {
    _Alignas(16) unsigned char bytes[320];
};
