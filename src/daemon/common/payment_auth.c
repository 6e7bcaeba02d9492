#include "daemon/common/payment_auth.h"

#include "adapter/hmac/hmac.h"
#include "base/err.h"
#include "base/parse.h"
#include <stdio.h>
#include <string.h>

#define SCHEME "Seckill-HMAC-SHA256"

int payment_auth_load(struct payment_auth *a, const char *path, int64_t window_us, char *err,
                      size_t err_cap)
{
    a->window_s = window_us / 1000000;
    return secrets_load(&a->secrets, "payments.secret_file", path, err, err_cap);
}

void payment_auth_wipe(struct payment_auth *a)
{
    secrets_wipe(&a->secrets);
}

static int mac_of(const struct payment_auth *a, int i, struct str time, struct str body,
                  unsigned char mac[HMAC_BYTES])
{
    char head[32];
    memcpy(head, time.ptr, time.len);
    head[time.len] = '.';
    return hmac_sha256(secrets_get(&a->secrets, i), (struct str){head, time.len + 1}, body, mac);
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_mac(struct str text, unsigned char mac[HMAC_BYTES])
{
    if (text.len != 2 * HMAC_BYTES)
        return false;
    for (int i = 0; i < HMAC_BYTES; i++) {
        int high = hex(text.ptr[2 * i]), low = hex(text.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        mac[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* "t=…,v1=…", in this order and nothing else. */
static bool read_value(struct str value, struct str *time, int64_t *signed_s,
                       unsigned char mac[HMAC_BYTES])
{
    struct str v1 = str_split(value, ',', time);
    if (!str_starts(*time, STR("t=")) || !v1.ptr || !str_starts(v1, STR("v1=")))
        return false;
    *time = (struct str){time->ptr + 2, time->len - 2};
    v1 = (struct str){v1.ptr + 3, v1.len - 3};
    return parse_i64(*time, 1, INT64_C(99999999999), signed_s) == 0 && read_mac(v1, mac);
}

bool payment_auth_check(const struct payment_auth *a, struct str authorization, struct str body,
                        int64_t wall_s, const char **why)
{
    unsigned char told[HMAC_BYTES], mac[HMAC_BYTES];
    struct str scheme, time, value = str_split(authorization, ' ', &scheme);
    int64_t signed_s = 0;
    *why = "a payment must be signed: Authorization: " SCHEME " t=…,v1=…";
    if (!str_eq_nocase(scheme, STR(SCHEME)) || !value.ptr ||
        !read_value(value, &time, &signed_s, told))
        return false;
    bool good = false;
    for (int i = 0; i < a->secrets.n; i++)
        good |= mac_of(a, i, time, body, mac) == 0 && hmac_equal(told, mac);
    *why = "the signature is not this body's by a secret of ours";
    if (!good)
        return false;
    *why = "the signature's time is too far from ours";
    return signed_s >= wall_s - a->window_s && signed_s <= wall_s + a->window_s;
}

int payment_auth_sign(const struct payment_auth *a, struct str body, int64_t wall_s,
                      char out[PAYMENT_SIGNATURE_MAX])
{
    unsigned char mac[HMAC_BYTES];
    char time[24], text[2 * HMAC_BYTES + 1];
    size_t n = str_from_i64(time, wall_s);
    int rc = mac_of(a, 0, (struct str){time, n}, body, mac);
    if (rc < 0)
        return rc;
    for (int i = 0; i < HMAC_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", mac[i]);
    snprintf(out, PAYMENT_SIGNATURE_MAX, SCHEME " t=%.*s,v1=%s", (int)n, time, text);
    return 0;
}
