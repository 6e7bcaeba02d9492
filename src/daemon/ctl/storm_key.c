/* Which key a request of a storm carries: from its number and the seed alone. */
#include "base/hash.h"
#include "daemon/ctl/storm.h"

struct uuid storm_key(const struct storm_config *c, int64_t j)
{
    uint64_t k = (uint64_t)(c->same_key ? j / c->clicks : j);
    uint64_t hi = hash_mix64(c->seed + k * UINT64_C(0x9e3779b97f4a7c15));
    uint64_t lo = hash_mix64(hi ^ hash_mix64(k + UINT64_C(0xd1b54a32d192ed03)));
    struct uuid u;
    memcpy(u.b, &hi, 8);
    memcpy(u.b + 8, &lo, 8);
    u.b[6] = (uint8_t)((u.b[6] & 0x0f) | 0x40);
    u.b[8] = (uint8_t)((u.b[8] & 0x3f) | 0x80);
    return u;
}
