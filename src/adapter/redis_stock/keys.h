/* The names of architecture 3. All keys of an item share one hash tag. */
#pragma once

#include "adapter/redis/redis.h"
#include "core/item.h"
#include "core/uuid.h"

#define STOCK_CATALOGUE "sec:items"
#define STOCK_SUSPECTS "sec:suspect"
#define STOCK_NEWS "sec:news"
#define STOCK_PROBE_KEY "sec:probe"

/* "A:S". Into dst of at least 41 bytes; the text. */
struct str keys_item(char *dst, struct item item);
int keys_item_parse(struct str s, struct item *out); /* 0 or ERR_INVALID */

/* Puts sec:{A:S}:<name>. */
void keys_put(struct redis_writer *w, struct item item, const char *name);
/* Puts sec:{A:S}:reservation:<user>:<request>. */
void keys_put_reservation(struct redis_writer *w, struct item item, int64_t user_id,
                          const struct uuid *request_id);
void keys_put_uuid(struct redis_writer *w, const struct uuid *u);
void keys_put_item(struct redis_writer *w, struct item item); /* "A:S" */
