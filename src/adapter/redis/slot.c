#include "adapter/redis/slot.h"

#include <stdint.h>

/* Bit by bit: tags are short, and only calls to a cluster come here. */
static uint16_t crc16(struct str s)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < s.len; i++) {
        crc ^= (uint16_t)((unsigned char)s.ptr[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

int redis_slot(struct str key)
{
    struct str before, tag, after = str_split(key, '{', &before);
    if (after.ptr && str_split(after, '}', &tag).ptr && tag.len)
        key = tag;
    return crc16(key) % REDIS_SLOTS;
}
