#include "daemon/api/location.h"

void location_add(struct strbuf *b, const struct location_keys *keys,
                  const struct location_claim *claim)
{
    char id[UUID_TEXT], token[LOCATION_TOKEN_MAX];
    uuid_format(&claim->request_id, id);
    strbuf_add_str(b, STR("Location: /v1/activities/"));
    strbuf_add_i64(b, claim->item.activity_id);
    strbuf_add_str(b, STR("/skus/"));
    strbuf_add_i64(b, claim->item.sku_id);
    strbuf_add_str(b, STR("/requests/"));
    strbuf_add(b, id, UUID_TEXT);
    size_t n = location_token_make(keys, claim, token);
    if (n) {
        strbuf_add_str(b, STR("?t="));
        strbuf_add(b, token, n);
    }
    strbuf_add_str(b, STR("\r\n"));
}
