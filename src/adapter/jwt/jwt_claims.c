#include "adapter/jwt/jwt_claims.h"

#include "base/json.h"
#include "base/parse.h"

/* One object's members: their names so far, and the first thing that was wrong. */
struct members {
    struct json json;
    struct str names[JWT_MEMBERS_MAX];
    int n;
    const char *why;
};

static bool members_begin(struct members *m, struct str text)
{
    m->n = 0;
    m->why = NULL;
    json_init(&m->json, text);
    if (json_next(&m->json) == JSON_OBJECT)
        return true;
    m->why = "not a JSON object";
    return false;
}

/* The next member's name, and in *type its value's first token. False at the end or when something
 * is wrong. */
static bool members_next(struct members *m, struct str *name, enum json_type *type)
{
    if (m->why)
        return false;
    enum json_type t = json_next(&m->json);
    if (t != JSON_KEY) {
        if (t != JSON_OBJECT_END || json_next(&m->json) != JSON_END)
            m->why = "ill-formed JSON";
        return false;
    }
    if (m->json.escaped || m->n == JWT_MEMBERS_MAX) {
        m->why = m->json.escaped ? "an escaped member name" : "too many members";
        return false;
    }
    *name = m->json.raw;
    for (int i = 0; i < m->n; i++) {
        if (str_eq(*name, m->names[i])) {
            m->why = "a member comes twice";
            return false;
        }
    }
    m->names[m->n++] = *name;
    *type = json_next(&m->json);
    return true;
}

static bool is_text(const struct members *m, enum json_type type, const char *text)
{
    return type == JSON_STRING && json_is(&m->json, str_of(text));
}

static bool plain_string(const struct members *m, enum json_type type)
{
    return type == JSON_STRING && !m->json.escaped;
}

static int find_key(const struct members *m, enum json_type type, const struct jwt_keys *keys)
{
    for (int i = 0; i < keys->n; i++) {
        if (is_text(m, type, keys->key[i].kid))
            return i;
    }
    return -1;
}

const char *jwt_header_read(struct str json, const struct jwt_keys *keys, int *key)
{
    /* Keys that the token itself brings along, and extensions that must be understood. */
    static const struct str refused[] = {STR("jwk"), STR("jku"), STR("x5c"), STR("x5u"),
                                         STR("crit")};
    struct members m;
    struct str name, alg = {0};
    enum json_type type;
    bool named = false;
    *key = -1;
    for (members_begin(&m, json); members_next(&m, &name, &type);) {
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
            if (str_eq(name, refused[i]))
                return "a header that is not allowed";
        }
        if (str_eq(name, STR("alg"))) {
            if (!plain_string(&m, type))
                return "alg is no plain string";
            alg = m.json.raw;
        } else if (str_eq(name, STR("typ"))) {
            if (!plain_string(&m, type) || !(str_eq_nocase(m.json.raw, STR("JWT")) ||
                                             str_eq_nocase(m.json.raw, STR("at+jwt"))))
                return "typ is not JWT";
        } else if (str_eq(name, STR("kid"))) {
            named = true;
            *key = find_key(&m, type, keys);
            if (*key < 0)
                return "unknown key";
        } else {
            json_skip(&m.json, type);
        }
    }
    if (m.why)
        return m.why;
    if (!named) {
        if (keys->n != 1)
            return "no kid";
        *key = 0;
    }
    return str_eq(alg, jwt_alg_name(keys->key[*key].alg)) ? NULL : "not the key's algorithm";
}

/* A NumericDate, rounded down: seconds, perhaps with a fraction. */
static bool read_date(const struct members *m, enum json_type type, int64_t *out)
{
    if (type != JSON_NUMBER)
        return false;
    struct str s = m->json.raw, whole, fraction = str_split(s, '.', &whole);
    for (size_t i = 0; i < fraction.len; i++) {
        if (fraction.ptr[i] < '0' || fraction.ptr[i] > '9')
            return false; /* an exponent */
    }
    /* The bound leaves room for leeways and comparisons. */
    return parse_i64(whole, 0, INT64_C(1) << 53, out) == 0;
}

static bool read_audience(struct members *m, enum json_type type, const char *audience)
{
    if (type == JSON_STRING)
        return is_text(m, type, audience);
    bool found = false;
    if (type != JSON_ARRAY)
        return false;
    while ((type = json_next(&m->json)) == JSON_STRING)
        found = is_text(m, type, audience) || found;
    return type == JSON_ARRAY_END && found;
}

enum { ISS = 1, AUD = 2, SUB = 4, EXP = 8, ALL = 15 };

const char *jwt_claims_read(struct str json, const char *issuer, const char *audience,
                            struct jwt_claims *out)
{
    struct members m;
    struct str name;
    enum json_type type;
    int64_t nbf = 0, iat = 0;
    unsigned seen = 0;
    for (members_begin(&m, json); members_next(&m, &name, &type);) {
        if (str_eq(name, STR("iss"))) {
            seen |= ISS;
            if (!is_text(&m, type, issuer))
                return "another issuer";
        } else if (str_eq(name, STR("aud"))) {
            seen |= AUD;
            if (!read_audience(&m, type, audience))
                return "another audience";
        } else if (str_eq(name, STR("sub"))) {
            seen |= SUB;
            if (!plain_string(&m, type) || parse_i64(m.json.raw, 1, INT64_MAX, &out->user_id))
                return "sub is no user";
        } else if (str_eq(name, STR("exp"))) {
            seen |= EXP;
            if (!read_date(&m, type, &out->expires_s))
                return "exp is no time";
        } else if (str_eq(name, STR("nbf"))) {
            if (!read_date(&m, type, &nbf))
                return "nbf is no time";
        } else if (str_eq(name, STR("iat"))) {
            if (!read_date(&m, type, &iat))
                return "iat is no time";
        } else {
            json_skip(&m.json, type);
        }
    }
    if (m.why)
        return m.why;
    out->not_before_s = nbf > iat ? nbf : iat;
    return seen == ALL ? NULL : "iss, aud, sub or exp is missing";
}
