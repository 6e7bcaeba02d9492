/* A toxic: a named fault of one direction of a proxy, its kind and its attributes as Toxiproxy's
 * API has them. Counted, since a decision that was made outlives the toxic's removal. */
#pragma once

#include "base/list.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stream { STREAM_UPSTREAM /* client → server */, STREAM_DOWNSTREAM };
enum { TOXIC_ATTRS = 8, TOXIC_NAME = 128, TOXIC_TEXT = 512 };

struct stage;

struct toxic_attr {
    const char *name;
    bool text;
    int64_t min, max, fallback;
    const char *fallback_text;
    const char *one_of; /* text: "|a|b|", or NULL: anything */
};

struct toxic_kind {
    const char *type;
    bool downstream_only;
    struct toxic_attr attrs[TOXIC_ATTRS];
    void (*run)(struct stage *s);        /* moves on what may move on; NULL: everything may */
    void (*on_removed)(struct stage *s); /* the stage leaves a living connection; NULL: nothing */
};

struct toxic {
    struct list link; /* the proxy's toxics; linked to itself when removed */
    int refs;
    const struct toxic_kind *kind;
    char name[TOXIC_NAME];
    enum stream stream;
    double toxicity;
    int64_t v[TOXIC_ATTRS];
    char text[TOXIC_ATTRS][TOXIC_TEXT];
    /* What it did, told in GET. */
    int64_t connections, swallowed; /* connections it applies to; bytes that ended here */
    int64_t matched, chosen, dropped, void_, collateral;
};

/* The kinds' attribute numbers. */
enum { LATENCY_LATENCY, LATENCY_JITTER };
enum { BANDWIDTH_RATE };
enum { SLOW_CLOSE_DELAY };
enum { TIMEOUT_TIMEOUT };
enum { RESET_TIMEOUT };
enum { SLICER_SIZE, SLICER_VARIATION, SLICER_DELAY };
enum { LIMIT_BYTES };
enum { HALF_CLOSE_BYTES };
enum { DROP_PROTOCOL, DROP_MATCH, DROP_NTH, DROP_COUNT, DROP_PERCENT, DROP_THEN };

extern const struct toxic_kind toxic_drop_reply;
const struct toxic_kind *toxic_kind_find(const char *type);

/* From the body of a POST. NULL with Toxiproxy's words in *error. */
struct toxic *toxic_from_json(json_t *body, const char **error);
/* Changes attributes and toxicity; nothing is changed when an error is returned. */
const char *toxic_update(struct toxic *t, json_t *body);
json_t *toxic_to_json(const struct toxic *t);
struct toxic *toxic_ref(struct toxic *t);
void toxic_unref(struct toxic *t);
