#include "daemon/ctl/out.h"

#include "base/json.h"
#include "base/panic.h"
#include "base/parse.h"
#include <stdio.h>
#include <stdlib.h>

#define OUT_MAX (256u << 20)

void out_begin(struct out *o, bool json, bool list)
{
    memset(o, 0, sizeof(*o));
    o->json = json;
    o->list = list;
    strbuf_init(&o->text, OUT_MAX);
    if (json && list)
        strbuf_add_char(&o->text, '[');
}

void out_record(struct out *o)
{
    if (o->json) {
        if (o->records > 0)
            strbuf_add_str(&o->text, STR("},\n "));
        strbuf_add_char(&o->text, '{');
    } else if (o->list && o->records == o->room) {
        o->room = o->room ? o->room * 2 : 64;
        o->cells = realloc(o->cells, sizeof(o->cells[0]) * (size_t)o->room);
        if (!o->cells)
            panic("out: no memory for %d rows", o->room);
    }
    if (!o->json && o->list)
        memset(o->cells[o->records], 0, sizeof(o->cells[0]));
    o->records++;
    o->fields = 0;
}

/* raw: the value as JSON has it; text: as people read it. */
static void add(struct out *o, const char *name, struct str raw, struct str text, bool quote)
{
    if (o->json) {
        if (o->fields > 0)
            strbuf_add_char(&o->text, ',');
        json_add_string(&o->text, str_of(name));
        strbuf_add_char(&o->text, ':');
        if (quote)
            json_add_string(&o->text, raw);
        else
            strbuf_add_str(&o->text, raw);
    } else if (o->list) {
        if (o->fields < OUT_COLUMNS) {
            o->heads[o->fields] = name;
            str_copy(o->cells[o->records - 1][o->fields], sizeof(o->cells[0][0]), text);
        }
    } else {
        char left[64];
        snprintf(left, sizeof(left), "%s:", name);
        strbuf_printf(&o->text, "%-18s " STR_FMT "\n", left, STR_ARG(text));
    }
    o->fields++;
}

void out_str(struct out *o, const char *name, struct str value)
{
    add(o, name, value, value.len ? value : STR("-"), true);
}

void out_i64(struct out *o, const char *name, int64_t value)
{
    char digits[24];
    struct str s = {digits, str_from_i64(digits, value)};
    add(o, name, s, s, false);
}

void out_id(struct out *o, const char *name, int64_t value)
{
    char digits[24];
    struct str s = {digits, str_from_i64(digits, value)};
    if (value == 0)
        add(o, name, STR("null"), STR("-"), false);
    else
        add(o, name, s, s, true);
}

void out_bool(struct out *o, const char *name, bool value)
{
    add(o, name, value ? STR("true") : STR("false"), value ? STR("yes") : STR("no"), false);
}

void out_time(struct out *o, const char *name, int64_t ms)
{
    char text[32];
    if (ms < 0) {
        add(o, name, STR("null"), STR("-"), false);
        return;
    }
    struct str s = {text, parse_format_time_ms(text, ms)};
    add(o, name, s, s, true);
}

void out_uuid(struct out *o, const char *name, const struct uuid *u)
{
    char text[UUID_TEXT];
    if (!u) {
        add(o, name, STR("null"), STR("-"), false);
        return;
    }
    uuid_format(u, text);
    struct str s = {text, UUID_TEXT};
    add(o, name, s, s, true);
}

void out_unknown(struct out *o, const char *name)
{
    add(o, name, STR("null"), STR("unknown"), false);
}

static void add_table(struct out *o)
{
    int width[OUT_COLUMNS] = {0}, columns = o->fields < OUT_COLUMNS ? o->fields : OUT_COLUMNS;
    for (int c = 0; c < columns; c++) {
        width[c] = (int)strlen(o->heads[c]);
        for (int r = 0; r < o->records; r++) {
            int len = (int)strlen(o->cells[r][c]);
            width[c] = len > width[c] ? len : width[c];
        }
    }
    for (int r = -1; r < o->records; r++) {
        for (int c = 0; c < columns; c++) {
            const char *cell = r < 0 ? o->heads[c] : o->cells[r][c];
            strbuf_printf(&o->text, "%-*s%s", c + 1 < columns ? width[c] : 0, cell,
                          c + 1 < columns ? "  " : "\n");
        }
    }
}

bool out_end(struct out *o)
{
    if (o->json) {
        if (o->records > 0)
            strbuf_add_char(&o->text, '}');
        strbuf_add_str(&o->text, o->list ? STR("]\n") : STR("\n"));
    } else if (o->list) {
        if (o->records > 0)
            add_table(o);
        else
            strbuf_add_str(&o->text, STR("none\n"));
    }
    bool ok = !o->text.failed && fwrite(o->text.ptr, 1, o->text.len, stdout) == o->text.len &&
              fflush(stdout) == 0;
    strbuf_deinit(&o->text);
    free(o->cells);
    return ok;
}
