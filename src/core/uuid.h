/* UUIDs (RFC 9562): read in either case, always written in lower case. */
#pragma once

#include "base/rng.h"
#include "base/str.h"

#define UUID_TEXT 36

struct uuid {
    uint8_t b[16];
};

int uuid_parse(struct str s, struct uuid *out); /* 8-4-4-4-12, any version; 0 or ERR_INVALID */
void uuid_format(const struct uuid *u, char dst[UUID_TEXT]); /* not terminated */
void uuid_add(struct strbuf *b, const struct uuid *u);
/* As text for a message that is about to be written: LOG_UUID("request_id", &id) among the fields
 * of a log line (base/log.h), or uuid_text(&id).z; it lives to the end of that statement. */
struct uuid_text {
    char z[UUID_TEXT + 1];
};
struct uuid_text uuid_text(const struct uuid *u);
#define LOG_UUID(name, u) LOG_Z(name, uuid_text(u).z)
struct uuid uuid_v7(int64_t wall_ms, struct rng *rng);
/* Name-based (SHA-1) in our own namespace: ids of commands (rule 27). */
struct uuid uuid_v5(struct str name);
bool uuid_eq(const struct uuid *a, const struct uuid *b);
bool uuid_is_nil(const struct uuid *u);
/* Milliseconds since 1970 of a version 7; -1 of any other. */
int64_t uuid_v7_ms(const struct uuid *u);
