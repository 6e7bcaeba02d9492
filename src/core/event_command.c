#include "base/panic.h"
#include "core/event.h"

#define CANCEL "cancel"

const char *event_command_name(enum event_command c)
{
    static const char *const names[EVENT_COMMANDS] = {
        [EVENT_CREATE] = "ORDER_CREATE_REQUESTED",
        [EVENT_CANCEL] = "ORDER_CANCEL_REQUESTED",
        [EVENT_PAY] = "ORDER_PAY_REQUESTED",
    };
    if ((unsigned)c >= EVENT_COMMANDS)
        panic("command %u", (unsigned)c);
    return names[c];
}

static bool plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
           c == ':' || c == '_' || c == '-';
}

/* A payment named as a cancel is would have its message_id. */
bool event_payment_id_ok(struct str id)
{
    static const size_t n = sizeof CANCEL - 1;
    if (id.len < 1 || id.len > EVENT_PAYMENT_ID_MAX ||
        (id.len >= n && memcmp(id.ptr, CANCEL, n) == 0))
        return false;
    for (size_t i = 0; i < id.len; i++) {
        if (!plain(id.ptr[i]))
            return false;
    }
    return true;
}

struct uuid event_cancel_id(const struct uuid *reservation_id)
{
    char name[sizeof CANCEL - 1 + UUID_TEXT];
    memcpy(name, CANCEL, sizeof CANCEL - 1);
    uuid_format(reservation_id, name + sizeof CANCEL - 1);
    return uuid_v5((struct str){name, sizeof name});
}

struct uuid event_pay_id(struct str payment_id)
{
    return uuid_v5(payment_id);
}
