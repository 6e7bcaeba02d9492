#include "daemon/ctl/observed.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "daemon/ctl/lines.h"
#include <stdio.h>
#include <stdlib.h>

#define LIVES_MAX 65536
#define SERIES_MAX (1u << 20)
#define INJECTIONS_MAX 4096

void observed_deinit(struct observed *o)
{
    free(o->lives);
    free(o->series);
    free(o->injections);
    free(o->slots);
    memset(o, 0, sizeof(*o));
}

/* One element more, zeroed; NULL: no memory, or over the bound. */
static void *grow(void **array, uint32_t *n, uint32_t *cap, size_t size, uint32_t max)
{
    if (*n == *cap) {
        uint32_t wanted = *cap ? *cap * 2 : 64;
        void *bigger = *cap >= max ? NULL : realloc(*array, (size_t)wanted * size);
        if (!bigger)
            return NULL;
        *array = bigger;
        *cap = wanted;
    }
    return memset((char *)*array + (size_t)(*n)++ * size, 0, size);
}

/* --- series by life and name --- */

static uint32_t hash_of(uint32_t life, const char *name)
{
    uint64_t h = life;
    for (; *name; name++)
        h = hash_mix64(h ^ (unsigned char)*name);
    return (uint32_t)(h >> 32);
}

static bool rehash(struct observed *o)
{
    uint32_t cap = o->cap_slots ? o->cap_slots * 2 : 1024;
    uint32_t *slots = calloc(cap, sizeof(slots[0]));
    if (!slots)
        return false;
    for (uint32_t i = 0; i < o->n_series; i++) {
        uint32_t at = hash_of(o->series[i].life, o->series[i].name) & (cap - 1);
        while (slots[at])
            at = (at + 1) & (cap - 1);
        slots[at] = i + 1;
    }
    free(o->slots);
    o->slots = slots;
    o->cap_slots = cap;
    return true;
}

static struct observed_series *series_of(struct observed *o, uint32_t life, const char *name)
{
    if (o->n_series >= o->cap_slots / 2 && !rehash(o))
        return NULL;
    uint32_t at = hash_of(life, name) & (o->cap_slots - 1);
    for (; o->slots[at]; at = (at + 1) & (o->cap_slots - 1)) {
        struct observed_series *s = &o->series[o->slots[at] - 1];
        if (s->life == life && strcmp(s->name, name) == 0)
            return s;
    }
    void *array = o->series;
    struct observed_series *s = grow(&array, &o->n_series, &o->cap_series, sizeof(*s), SERIES_MAX);
    o->series = array;
    if (!s)
        return NULL;
    o->slots[at] = o->n_series;
    s->life = life;
    str_copy(s->name, sizeof(s->name), str_of(name));
    return s;
}

/* --- a line --- */

enum { T, TYPE, PROGRAM, INSTANCE, LIFE, WHAT, METRIC, IS, TEXTS };
static const struct str text_names[TEXTS] = {STR("t"),        STR("type"), STR("program"),
                                             STR("instance"), STR("life"), STR("what"),
                                             STR("metric"),   STR("is")};

struct line {
    int64_t t_us;
    char text[TEXTS][OBSERVED_NAME];
    double count;
    bool final, has_count;
    struct str values; /* the object's text */
};

static bool read_number(const struct json *j, double *out)
{
    char digits[40], *end;
    if (!str_copy(digits, sizeof(digits), j->raw))
        return false;
    *out = strtod(digits, &end);
    return *end == 0;
}

static bool read_member(struct json *j, struct line *l)
{
    int m = 0;
    while (m < TEXTS && !json_is(j, text_names[m]))
        m++;
    bool is_count = json_is(j, STR("count")), is_final = json_is(j, STR("final")),
         is_values = json_is(j, STR("values"));
    size_t before = j->at;
    enum json_type t = json_next(j);
    if (m == T)
        return json_i64(j, 0, INT64_MAX, &l->t_us) == 0;
    if (m < TEXTS) {
        int n = t == JSON_STRING ? json_unescape(j, l->text[m], OBSERVED_NAME - 1) : ERR_INVALID;
        if (n >= 0)
            l->text[m][n] = 0;
        return n >= 0;
    }
    if (is_count)
        return l->has_count = t == JSON_NUMBER && read_number(j, &l->count);
    if (is_final) {
        l->final = t == JSON_TRUE;
        return t == JSON_TRUE || t == JSON_FALSE;
    }
    if (!json_skip(j, t))
        return false;
    if (is_values) { /* read when it is known whose they are */
        const char *colon = memchr(j->text.ptr + before, '{', j->at - before);
        if (t != JSON_OBJECT || !colon)
            return false;
        l->values = (struct str){colon, (size_t)(j->text.ptr + j->at - colon)};
    }
    return true;
}

static bool read_line(struct str text, struct line *l)
{
    struct json j;
    enum json_type t;
    memset(l, 0, sizeof(*l));
    json_init(&j, text);
    if (json_next(&j) != JSON_OBJECT)
        return false;
    while ((t = json_next(&j)) == JSON_KEY) {
        if (!read_member(&j, l))
            return false;
    }
    return t == JSON_OBJECT_END && json_next(&j) == JSON_END && l->t_us > 0;
}

static int take_values(struct observed *o, uint32_t life, struct str values)
{
    struct json j;
    enum json_type t;
    char name[OBSERVED_NAME];
    double v;
    json_init(&j, values);
    json_next(&j);
    while ((t = json_next(&j)) == JSON_KEY) {
        int n = json_unescape(&j, name, sizeof(name) - 1);
        if (json_next(&j) != JSON_NUMBER || !read_number(&j, &v))
            return ERR_INVALID;
        if (n < 0)
            continue; /* a longer name is none of ours */
        name[n] = 0;
        struct observed_series *s = series_of(o, life, name);
        if (!s)
            return ERR_OVERLOAD;
        s->last = v;
        s->most = v > s->most ? v : s->most;
    }
    return 0;
}

static int take_metrics(struct observed *o, const struct line *l)
{
    uint32_t i = 0;
    for (; i < o->n_lives; i++) {
        if (strcmp(o->lives[i].program, l->text[PROGRAM]) == 0 &&
            strcmp(o->lives[i].instance, l->text[INSTANCE]) == 0 &&
            strcmp(o->lives[i].life, l->text[LIFE]) == 0)
            break;
    }
    if (i == o->n_lives) {
        void *array = o->lives;
        struct observed_life *new =
            grow(&array, &o->n_lives, &o->cap_lives, sizeof(*new), LIVES_MAX);
        o->lives = array;
        if (!new)
            return ERR_OVERLOAD;
        str_copy(new->program, sizeof(new->program), str_of(l->text[PROGRAM]));
        str_copy(new->instance, sizeof(new->instance), str_of(l->text[INSTANCE]));
        str_copy(new->life, sizeof(new->life), str_of(l->text[LIFE]));
        new->first_us = l->t_us;
    }
    o->snapshots++;
    o->lives[i].last_us = l->t_us;
    o->lives[i].final = l->final;
    return l->values.ptr && l->text[PROGRAM][0] ? take_values(o, i, l->values) : ERR_INVALID;
}

static int take_injection(struct observed *o, const struct line *l)
{
    static const char *const names[] = {"equal", "at_least", "at_most"};
    int is = 0;
    while (l->text[IS][0] && is < 3 && strcmp(names[is], l->text[IS]) != 0)
        is++;
    if (is == 3 || !l->has_count || !l->text[METRIC][0])
        return ERR_INVALID;
    void *array = o->injections;
    struct observed_injection *x =
        grow(&array, &o->n_injections, &o->cap_injections, sizeof(*x), INJECTIONS_MAX);
    o->injections = array;
    if (!x)
        return ERR_OVERLOAD;
    str_copy(x->metric, sizeof(x->metric), str_of(l->text[METRIC]));
    str_copy(x->program, sizeof(x->program), str_of(l->text[PROGRAM]));
    str_copy(x->what, sizeof(x->what), str_of(l->text[WHAT]));
    x->count = l->count;
    x->is = (enum observed_is)is;
    return 0;
}

static int take(struct observed *o, const struct line *l)
{
    if (strcmp(l->text[TYPE], "metrics") == 0)
        return take_metrics(o, l);
    if (strcmp(l->text[TYPE], "injected") == 0)
        return take_injection(o, l);
    if (strcmp(l->text[TYPE], "fault") != 0)
        return ERR_INVALID;
    o->faults++;
    if (l->t_us > o->last_fault_us)
        o->last_fault_us = l->t_us;
    return 0;
}

int observed_read(struct observed *o, const char *path, char *err, size_t err_cap)
{
    struct lines l;
    struct line line;
    int rc = 0;
    lines_open(&l, path);
    while (rc == 0 && lines_next(&l)) {
        int taken = read_line(l.text, &line) ? take(o, &line) : ERR_INVALID;
        if (taken == ERR_INVALID)
            lines_refuse(&l, "not understood (docs/audit.md)");
        else
            rc = taken;
    }
    if (rc < 0)
        snprintf(err, err_cap, "%s: too much to be kept", path);
    int closed = lines_close(&l);
    if (closed < 0)
        snprintf(err, err_cap, "%s", l.why);
    return rc < 0 ? rc : closed;
}

/* --- asking --- */

bool observed_is_of(const struct observed_series *s, const char *metric)
{
    size_t n = strlen(metric);
    return strncmp(s->name, metric, n) == 0 && (s->name[n] == 0 || s->name[n] == '{');
}

double observed_sum_of(const struct observed *o, uint32_t life, const char *metric)
{
    double sum = 0;
    for (uint32_t i = 0; i < o->n_series; i++) {
        if (o->series[i].life == life && observed_is_of(&o->series[i], metric))
            sum += o->series[i].last;
    }
    return sum;
}

double observed_sum(const struct observed *o, const char *program, const char *metric)
{
    double sum = 0;
    for (uint32_t i = 0; i < o->n_series; i++) {
        const struct observed_series *s = &o->series[i];
        if ((!*program || strcmp(o->lives[s->life].program, program) == 0) &&
            observed_is_of(s, metric))
            sum += s->last;
    }
    return sum;
}
