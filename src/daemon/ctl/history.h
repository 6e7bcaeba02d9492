/* The history of buyers, JSONL, one event a line (docs/audit.md), as storms and tests write it:
 *
 *   {"t":µs,"type":"invoke","user":7,"key":"…","activity":1001,"sku":2001}
 *   {"t":µs,"type":"ok"|"fail"|"unknown", …,"status":409,"code":"SOLD_OUT",
 *    "order_id":"…","reservation_id":"…"}
 *   {"t":µs,"type":"state", …,"since":µs,"status":200,"state":"SUCCEEDED","reason":""}
 *
 * t: wall clock. invoke … unknown: POST /v1/orders. ok: accepted (202, 200). fail: a refusal that
 * is certain (the answer says so). unknown: no answer, or one that does not say whether something
 * was done (5xx but 503). order_id and reservation_id where the answer had them. The same key may
 * be invoked many times; each invocation has one end at most (none: the client died first). state:
 * what the request's status call told; since: when that was asked. */
#pragma once

#include "base/str.h"
#include "core/item.h"
#include "core/uuid.h"
#include "core/verdict.h"
#include <stdbool.h>
#include <stdint.h>

enum history_type {
    HISTORY_INVOKE,
    HISTORY_OK,
    HISTORY_FAIL,
    HISTORY_UNKNOWN,
    HISTORY_STATE,
    HISTORY_TYPES
};

struct history_event {
    enum history_type type;
    int64_t t_us, user;
    struct uuid key;
    struct item item;
    int status; /* 0: none */
    struct str code;
    int64_t order_id; /* 0: none */
    bool has_reservation;
    struct uuid reservation_id;
    int64_t since_us;       /* STATE; 0: not said */
    bool has_state;         /* the answer told one */
    struct verdict verdict; /* has_state */
};

struct history; /* a writer; one thread */
/* Makes or empties the file. NULL with a message in err. */
struct history *history_open(const char *path, char *err, size_t err_cap);
/* Buffered; never blocks but for the disk. */
void history_add(struct history *h, const struct history_event *e);
/* Writes what is buffered. False when anything could not be written since it was opened. */
bool history_flush(struct history *h);
bool history_close(struct history *h); /* flushes and frees; as history_flush */

/* One line without its end: 0, or ERR_INVALID with a static reason. Members that are not known are
 * skipped. code points into line. */
int history_parse(struct str line, struct history_event *e, const char **why);
