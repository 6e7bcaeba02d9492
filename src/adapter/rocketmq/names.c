#include "adapter/rocketmq/names.h"

#include <string.h>

bool rmq_name_fits(const char *z, size_t max)
{
    static const char signs[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%|_-";
    size_t n = strlen(z);
    return n > 0 && n <= max && strspn(z, signs) == n;
}

bool rmq_access_key_fits(const char *z)
{
    for (const char *c = z; *c; c++) {
        if (*c <= ' ' || *c > '~' || *c == '/' || *c == ',')
            return false;
    }
    return strlen(z) <= RMQ_ACCESS_KEY_MAX;
}

bool rmq_keys_fit(const char *access_key, const char *secret_key)
{
    return rmq_access_key_fits(access_key) && strlen(secret_key) <= RMQ_SECRET_KEY_MAX &&
           !access_key[0] == !secret_key[0];
}
