#include "adapter/h2grpc/status.h"

#include "adapter/h2grpc/h2grpc.h"

int grpc_status_rc(int status)
{
    switch (status) {
    case GRPC_OK:
        return 0;
    case GRPC_INVALID_ARGUMENT:
    case GRPC_OUT_OF_RANGE:
    case GRPC_UNIMPLEMENTED:
        return ERR_INVALID;
    case GRPC_NOT_FOUND:
        return ERR_NOTFOUND;
    case GRPC_PERMISSION_DENIED:
    case GRPC_UNAUTHENTICATED:
        return ERR_DENIED;
    case GRPC_ABORTED:
    case GRPC_FAILED_PRECONDITION:
    case GRPC_ALREADY_EXISTS:
        return ERR_CONFLICT;
    case GRPC_RESOURCE_EXHAUSTED:
        return ERR_UNAVAIL;
    default: /* UNAVAILABLE too: a proxy in between may have passed the request on */
        return ERR_UNCERTAIN;
    }
}

int grpc_status_of_rc(int rc)
{
    switch (rc) {
    case 0:
        return GRPC_OK;
    case ERR_CANCELED:
        return GRPC_CANCELLED;
    case ERR_DEADLINE:
        return GRPC_DEADLINE_EXCEEDED;
    case ERR_OVERLOAD:
        return GRPC_RESOURCE_EXHAUSTED;
    case ERR_INVALID:
        return GRPC_INVALID_ARGUMENT;
    case ERR_INTERNAL:
        return GRPC_INTERNAL;
    default:
        return GRPC_UNAVAILABLE;
    }
}

int grpc_status_parse(struct str text)
{
    if (text.len == 0 || text.len > 9)
        return -1;
    int v = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return -1;
        v = v * 10 + (text.ptr[i] - '0');
    }
    return v <= GRPC_UNAUTHENTICATED ? v : GRPC_UNKNOWN;
}

int grpc_status_of_http(int http_status)
{
    switch (http_status) {
    case 400:
    case 431:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}

int grpc_status_of_reset(uint32_t code)
{
    switch (code) {
    case 0x7: /* REFUSED_STREAM */
        return GRPC_UNAVAILABLE;
    case 0x8: /* CANCEL */
        return GRPC_CANCELLED;
    case 0xb: /* ENHANCE_YOUR_CALM */
        return GRPC_RESOURCE_EXHAUSTED;
    case 0xc: /* INADEQUATE_SECURITY */
        return GRPC_PERMISSION_DENIED;
    default:
        return GRPC_INTERNAL;
    }
}

size_t grpc_timeout_format(char dst[GRPC_TIMEOUT_MAX], int64_t us)
{
    static const struct {
        int64_t us;
        char name;
    } units[] = {{1, 'u'}, {1000, 'm'}, {1000000, 'S'}, {60000000, 'M'}, {3600000000, 'H'}};
    enum { LAST = sizeof units / sizeof *units - 1 };
    const int64_t most = 99999999;
    int u = 0;
    if (us < 1)
        us = 1;
    while (u < LAST && us / units[u].us > most)
        u++;
    int64_t v = us / units[u].us;
    size_t n = str_from_u64(dst, (uint64_t)(v < most ? v : most));
    dst[n] = units[u].name;
    return n + 1;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

size_t grpc_percent_decode(char *text, size_t n)
{
    size_t to = 0;
    for (size_t i = 0; i < n; to++) {
        int high = text[i] == '%' && n - i > 2 ? hex(text[i + 1]) : -1;
        int low = high >= 0 ? hex(text[i + 2]) : -1;
        text[to] = low >= 0 ? (char)(high * 16 + low) : text[i];
        i += low >= 0 ? 3 : 1;
    }
    return to;
}
