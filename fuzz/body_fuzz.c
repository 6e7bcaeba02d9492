/* Whatever arrives as the body of POST /v1/orders: refused with a reason, or an item within its
 * bounds that our own writing of it gives again. */
#include "app/order_body.h"
#include "base/panic.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct item item = {0, 0}, again = {0, 0};
    const char *why = NULL;
    if (order_body_parse((struct str){(const char *)data, size}, &item, &why) != ORDER_BODY_OK) {
        if (!why || item.activity_id || item.sku_id)
            panic("refused without a reason, or with a result");
        return 0;
    }
    if (item.activity_id < 1 || item.sku_id < 1)
        panic("accepted what is out of bounds");
    char mem[128];
    struct strbuf b;
    strbuf_init_fixed(&b, mem, sizeof(mem));
    strbuf_printf(&b, "{\"activity_id\":%lld,\"sku_id\":%lld}", (long long)item.activity_id,
                  (long long)item.sku_id);
    if (order_body_parse(strbuf_str(&b), &again, &why) != ORDER_BODY_OK || !item_eq(item, again))
        panic("it came back different");
    return 0;
}
