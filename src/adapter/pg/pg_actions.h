/* operator_actions: what operators did (seckillctl). Blocking, a connection per call, 10 s at most.
 * rc 0, > 0 as told, or < 0 as in err.h with a message in err. */
#pragma once

#include "base/str.h"
#include "core/item.h"
#include <stddef.h>

#define PG_ACTION_DETAIL_MAX 4096 /* bytes of JSON */

/* Before anything is done: a row that says STARTED. item 0:0: of no item. detail: a JSON object, or
 * empty. */
int pg_action_begin(const char *conninfo, struct str login, struct str action, struct item item,
                    struct str detail, int64_t *id, char *err, size_t err_cap);
/* Its end; detail is added to what stands there. Once: 1: it has an end already, or is not there.
 * ERR_UNCERTAIN: it may be written. */
int pg_action_end(const char *conninfo, int64_t id, struct str outcome, struct str detail,
                  char *err, size_t err_cap);

struct pg_action {
    int64_t id, at_ms, finished_ms; /* 0: not */
    struct item item;               /* 0:0: of none */
    char login[96], operator_name[64], action[64], outcome[16];
    char detail[PG_ACTION_DETAIL_MAX]; /* JSON, cut */
};
/* Newest first, those with an id below before_id (0: all); *n in: capacity, out: how many. */
int pg_actions_list(const char *conninfo, int64_t before_id, struct pg_action *rows, int *n,
                    char *err, size_t err_cap);
