#include "toxic.h"

#include "stage.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS 3600000
#define ANY_SIZE (INT64_C(1) << 50)
#define NUMBER(n, lo, hi, or)                                                                      \
    {                                                                                              \
        .name = n, .min = lo, .max = hi, .fallback = or                                            \
    }

static const struct toxic_kind kinds[] = {
    {.type = "latency",
     .attrs = {NUMBER("latency", 0, HOUR_MS, 0), NUMBER("jitter", 0, HOUR_MS, 0)},
     .run = stage_latency},
    {.type = "bandwidth", .attrs = {NUMBER("rate", 0, 1 << 30, 0)}, .run = stage_bandwidth},
    {.type = "slow_close", .attrs = {NUMBER("delay", 0, HOUR_MS, 0)}, .run = stage_slow_close},
    {.type = "timeout",
     .attrs = {NUMBER("timeout", 0, HOUR_MS, 0)},
     .run = stage_timeout,
     .on_removed = stage_timeout_removed},
    {.type = "reset_peer", .attrs = {NUMBER("timeout", 0, HOUR_MS, 0)}, .run = stage_reset},
    {.type = "slicer",
     .attrs = {NUMBER("average_size", 0, 1 << 30, 0), NUMBER("size_variation", 0, 1 << 30, 0),
               NUMBER("delay", 0, INT64_C(1000) * HOUR_MS, 0)},
     .run = stage_slicer},
    {.type = "limit_data", .attrs = {NUMBER("bytes", 0, ANY_SIZE, 0)}, .run = stage_limit},
    {.type = "blackhole", .run = stage_blackhole},
    {.type = "half_close", .attrs = {NUMBER("bytes", 0, ANY_SIZE, 0)}, .run = stage_half_close},
};

const struct toxic_kind toxic_drop_reply = {
    .type = "drop_reply",
    .downstream_only = true,
    .attrs = {{.name = "protocol",
               .text = true,
               .fallback_text = "bytes",
               .one_of = "|resp|pgsql|http1|http2|bytes|"},
              {.name = "match", .text = true, .fallback_text = ""},
              NUMBER("nth", 1, ANY_SIZE, 1),
              NUMBER("count", 0, ANY_SIZE, 1),
              NUMBER("percent", 0, 100, 100),
              {.name = "then",
               .text = true,
               .fallback_text = "swallow",
               .one_of = "|swallow|close|reset|"}},
};

const struct toxic_kind *toxic_kind_find(const char *type)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].type, type) == 0)
            return &kinds[i];
    return strcmp(type, toxic_drop_reply.type) == 0 ? &toxic_drop_reply : NULL;
}

static bool set_text(const struct toxic_attr *a, char *dst, json_t *value)
{
    const char *text = json_string_value(value);
    char framed[TOXIC_TEXT + 2];
    if (!text || json_string_length(value) >= TOXIC_TEXT ||
        strlen(text) != json_string_length(value))
        return false;
    snprintf(framed, sizeof framed, "|%s|", text);
    if (a->one_of && (strchr(text, '|') || !strstr(a->one_of, framed)))
        return false;
    strcpy(dst, text);
    return true;
}

static bool set_number(const struct toxic_attr *a, int64_t *dst, json_t *value)
{
    double v = json_number_value(value);
    if (!json_is_number(value) || v != floor(v) || v < (double)a->min || v > (double)a->max)
        return false;
    *dst = json_is_integer(value) ? json_integer_value(value) : (int64_t)v;
    return true;
}

/* Unknown attributes are ignored, as Toxiproxy does. */
static const char *set_attrs(struct toxic *t, json_t *attrs)
{
    for (int i = 0; i < TOXIC_ATTRS && t->kind->attrs[i].name; i++) {
        const struct toxic_attr *a = &t->kind->attrs[i];
        json_t *value = json_object_get(attrs, a->name);
        if (value && !(a->text ? set_text(a, t->text[i], value) : set_number(a, &t->v[i], value)))
            return "bad request body";
    }
    return NULL;
}

static const char *set_all(struct toxic *t, json_t *body)
{
    json_t *attrs = json_object_get(body, "attributes");
    json_t *toxicity = json_object_get(body, "toxicity");
    if ((attrs && !json_is_object(attrs)) || (toxicity && !json_is_number(toxicity)))
        return "bad request body";
    if (toxicity)
        t->toxicity = fmin(1, fmax(0, json_number_value(toxicity)));
    return set_attrs(t, attrs);
}

static const char *parse(struct toxic *t, json_t *body)
{
    const char *name = NULL, *type = NULL, *stream = "downstream";
    if (json_unpack(body, "{s?s, s?s, s?s}", "name", &name, "type", &type, "stream", &stream))
        return "bad request body";
    if (strcmp(stream, "upstream") && strcmp(stream, "downstream"))
        return "stream was invalid, can be either upstream or downstream";
    t->stream = strcmp(stream, "upstream") ? STREAM_DOWNSTREAM : STREAM_UPSTREAM;
    t->kind = type ? toxic_kind_find(type) : NULL;
    if (!t->kind)
        return "invalid toxic type";
    if (t->kind->downstream_only && t->stream != STREAM_DOWNSTREAM)
        return "stream was invalid, this toxic is of replies: downstream";
    int n = name && *name ? snprintf(t->name, sizeof t->name, "%s", name)
                          : snprintf(t->name, sizeof t->name, "%s_%s", type, stream);
    if (n < 0 || n >= (int)sizeof t->name || strchr(t->name, '/'))
        return "bad request body";
    for (int i = 0; i < TOXIC_ATTRS && t->kind->attrs[i].name; i++) {
        t->v[i] = t->kind->attrs[i].fallback;
        if (t->kind->attrs[i].text)
            strcpy(t->text[i], t->kind->attrs[i].fallback_text);
    }
    return set_all(t, body);
}

struct toxic *toxic_from_json(json_t *body, const char **error)
{
    struct toxic *t = calloc(1, sizeof *t);
    *error = "no memory";
    if (!t)
        return NULL;
    t->refs = 1;
    t->toxicity = 1;
    list_init(&t->link);
    *error = parse(t, body);
    if (!*error)
        return t;
    free(t);
    return NULL;
}

const char *toxic_update(struct toxic *t, json_t *body)
{
    struct toxic *changed = malloc(sizeof *changed);
    if (!changed)
        return "no memory";
    *changed = *t;
    const char *error = set_all(changed, body);
    if (!error) {
        t->toxicity = changed->toxicity;
        memcpy(t->v, changed->v, sizeof t->v);
        memcpy(t->text, changed->text, sizeof t->text);
    }
    free(changed);
    return error;
}

json_t *toxic_to_json(const struct toxic *t)
{
    json_t *attrs = json_object();
    for (int i = 0; i < TOXIC_ATTRS && t->kind->attrs[i].name; i++)
        json_object_set_new(attrs, t->kind->attrs[i].name,
                            t->kind->attrs[i].text ? json_string(t->text[i])
                                                   : json_integer(t->v[i]));
    json_t *stats = json_pack("{s:I, s:I}", "connections", (json_int_t)t->connections, "swallowed",
                              (json_int_t)t->swallowed);
    if (t->kind == &toxic_drop_reply)
        json_object_update_new(
            stats,
            json_pack("{s:I, s:I, s:I, s:I, s:I}", "matched", (json_int_t)t->matched, "chosen",
                      (json_int_t)t->chosen, "dropped", (json_int_t)t->dropped, "void",
                      (json_int_t)t->void_, "collateral", (json_int_t)t->collateral));
    return json_pack("{s:s, s:s, s:s, s:f, s:o, s:o}", "name", t->name, "type", t->kind->type,
                     "stream", t->stream == STREAM_UPSTREAM ? "upstream" : "downstream", "toxicity",
                     t->toxicity, "attributes", attrs, "stats", stats);
}

struct toxic *toxic_ref(struct toxic *t)
{
    t->refs++;
    return t;
}

void toxic_unref(struct toxic *t)
{
    if (t && --t->refs == 0)
        free(t);
}
