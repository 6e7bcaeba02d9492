#include "adapter/redis_stock/keys.h"

#include "base/parse.h"

enum { KEY_MAX = 192 };

struct str keys_item(char *dst, struct item item)
{
    size_t n = str_from_i64(dst, item.activity_id);
    dst[n++] = ':';
    n += str_from_i64(dst + n, item.sku_id);
    return (struct str){dst, n};
}

int keys_item_parse(struct str s, struct item *out)
{
    struct str activity, sku = str_split(s, ':', &activity);
    if (parse_i64(activity, 1, INT64_MAX, &out->activity_id) ||
        parse_i64(sku, 1, INT64_MAX, &out->sku_id))
        return ERR_INVALID;
    return 0;
}

static size_t prefix(char *dst, struct item item)
{
    memcpy(dst, "sec:{", 5);
    size_t n = 5 + keys_item(dst + 5, item).len;
    memcpy(dst + n, "}:", 2);
    return n + 2;
}

void keys_put(struct redis_writer *w, struct item item, const char *name)
{
    char key[KEY_MAX];
    size_t n = prefix(key, item), len = strlen(name);
    memcpy(key + n, name, len);
    redis_put(w, (struct str){key, n + len});
}

void keys_put_reservation(struct redis_writer *w, struct item item, int64_t user_id,
                          const struct uuid *request_id)
{
    char key[KEY_MAX];
    size_t n = prefix(key, item);
    memcpy(key + n, "reservation:", 12);
    n += 12;
    n += str_from_i64(key + n, user_id);
    key[n++] = ':';
    uuid_format(request_id, key + n);
    redis_put(w, (struct str){key, n + UUID_TEXT});
}

void keys_put_uuid(struct redis_writer *w, const struct uuid *u)
{
    char text[UUID_TEXT];
    uuid_format(u, text);
    redis_put(w, (struct str){text, UUID_TEXT});
}

void keys_put_item(struct redis_writer *w, struct item item)
{
    char text[41];
    redis_put(w, keys_item(text, item));
}
