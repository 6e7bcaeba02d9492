#include "adapter/rocketmq/remoting_frame.h"

#include "adapter/rocketmq/remoting_json.h"
#include "base/err.h"
#include "base/json.h"
#include "base/panic.h"
#include <openssl/evp.h>
#include <openssl/hmac.h>

enum { SHA1_BYTES = 20, SIGNATURE_TEXT = 28, FLAG_ANSWER = 1 };

static uint32_t be32(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

static void put_be32(char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (char)(unsigned char)(v >> (24 - 8 * i));
}

/* base64(HMAC-SHA1(secret, the values in the order of their names, AccessKey among them, then the
 * body)); we send no body. "AccessKey" comes before every other name: theirs begin in lower case.
 */
static void sign(char text[SIGNATURE_TEXT + 1], const struct remoting_field *fields, int n,
                 const char *access_key, const char *secret_key)
{
    char mem[2048];
    struct strbuf b;
    unsigned char mac[SHA1_BYTES];
    unsigned len = sizeof mac;
    strbuf_init_fixed(&b, mem, sizeof mem);
    strbuf_add_str(&b, str_of(access_key));
    for (int i = 0; i < n; i++)
        strbuf_add_str(&b, str_of(fields[i].value));
    if (b.failed || !HMAC(EVP_sha1(), secret_key, (int)strlen(secret_key),
                          (const unsigned char *)b.ptr, b.len, mac, &len))
        panic("remoting: cannot sign");
    EVP_EncodeBlock((unsigned char *)text, mac, (int)len);
}

static void add_field(struct strbuf *out, const char *name, const char *value)
{
    if (out->ptr[out->len - 1] != '{')
        strbuf_add_char(out, ',');
    json_add_string(out, str_of(name));
    strbuf_add_char(out, ':');
    json_add_string(out, str_of(value));
}

void remoting_encode(struct strbuf *out, int code, uint32_t opaque,
                     const struct remoting_field *fields, int n, const char *access_key,
                     const char *secret_key)
{
    size_t start = out->len;
    if (!strbuf_reserve(out, 8))
        return;
    strbuf_commit(out, 8);
    strbuf_printf(out,
                  "{\"code\":%d,\"flag\":0,\"language\":\"OTHER\",\"opaque\":%u,"
                  "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":500,\"extFields\":{",
                  code, opaque);
    if (access_key && access_key[0]) {
        char signature[SIGNATURE_TEXT + 1];
        sign(signature, fields, n, access_key, secret_key ? secret_key : "");
        add_field(out, "AccessKey", access_key);
        add_field(out, "Signature", signature);
    }
    for (int i = 0; i < n; i++)
        add_field(out, fields[i].name, fields[i].value);
    strbuf_add_str(out, STR("}}"));
    if (out->failed)
        return;
    put_be32(out->ptr + start, (uint32_t)(out->len - start - 4));
    put_be32(out->ptr + start + 4, (uint32_t)(out->len - start - 8));
}

int64_t remoting_frame_length(struct str in, size_t max)
{
    if (in.len < 4)
        return 0;
    uint64_t rest = be32(in.ptr);
    if (rest < 4 || rest + 4 > max)
        return ERR_INTERNAL;
    return (int64_t)rest + 4;
}

int remoting_decode(struct str frame, struct remoting_answer *out)
{
    if (frame.len < 8 || be32(frame.ptr) != frame.len - 4)
        return ERR_INTERNAL;
    /* The highest byte says how the header is written: 0 is JSON, the form that we asked for. */
    size_t header = be32(frame.ptr + 4);
    if (header >> 24 || header > frame.len - 8)
        return ERR_INTERNAL;
    *out = (struct remoting_answer){.code = -1, .remark = STR("")};
    out->body = (struct str){frame.ptr + 8 + header, frame.len - 8 - header};
    int64_t code = -1, flag = 0, opaque = -1;
    bool coded = false;
    struct remoting_json j;
    remoting_json_init(&j, (struct str){frame.ptr + 8, header});
    remoting_json_enter(&j, '{');
    for (int n = 0; remoting_json_more(&j, '}', n); n++) {
        struct str key = remoting_json_key(&j);
        if (str_eq(key, STR("code"))) {
            code = remoting_json_i64(&j, INT32_MIN, INT32_MAX);
            coded = true;
        } else if (str_eq(key, STR("flag")))
            flag = remoting_json_i64(&j, 0, INT32_MAX);
        else if (str_eq(key, STR("opaque")))
            opaque = remoting_json_i64(&j, INT32_MIN, INT32_MAX);
        else if (str_eq(key, STR("remark")))
            out->remark = remoting_json_text(&j);
        else
            remoting_json_skip(&j);
    }
    if (!remoting_json_done(&j) || !coded)
        return ERR_INTERNAL;
    out->opaque = (uint32_t)opaque;
    out->code = flag & FLAG_ANSWER && code >= 0 ? (int)code : -1;
    return 0;
}
