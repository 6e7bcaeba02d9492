/* What a command prints: records of named fields, as aligned text for people or as JSON. One record
 * alone is `name: value` lines, or an object; a list is a table, or an array of objects. The text
 * goes to standard output when the command ends (out_end), so that an error leaves nothing half
 * said. */
#pragma once

#include "base/str.h"
#include "core/uuid.h"

#define OUT_COLUMNS 16

struct out {
    bool json, list;
    struct strbuf text;
    int records, fields;             /* fields of this record */
    char (*cells)[OUT_COLUMNS][160]; /* table: kept to know the widths */
    const char *heads[OUT_COLUMNS];
    int room;
};

void out_begin(struct out *o, bool json, bool list);
/* The next record; a list has any number, else there is exactly one. */
void out_record(struct out *o);
void out_str(struct out *o, const char *name, struct str value);
void out_i64(struct out *o, const char *name, int64_t value);
/* An order id: in JSON a string (2^53). 0: null, "-". */
void out_id(struct out *o, const char *name, int64_t value);
void out_bool(struct out *o, const char *name, bool value);
/* UTC; negative: null, "-". */
void out_time(struct out *o, const char *name, int64_t ms);
void out_uuid(struct out *o, const char *name, const struct uuid *u); /* NULL: null, "-" */
void out_unknown(struct out *o, const char *name); /* null, "unknown": never a zero */
/* Prints and frees. False when standard output does not take it. */
bool out_end(struct out *o);
