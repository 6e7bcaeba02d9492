/* T was read between the sending and the receiving, so that T − receive time ≤ true offset ≤ T −
 * send time. The greatest lower bound of the last 10 s is the estimate; an upper bound below it
 * proves that a clock has moved. */
#include "core/redis_time.h"

#define BUCKETS 10
#define BUCKET_US 1000000

void redis_time_init(struct redis_time *t)
{
    *t = (struct redis_time){0};
    for (int i = 0; i < BUCKETS; i++)
        t->bucket_at[i] = INT64_MIN;
}

void redis_time_sample(struct redis_time *t, int64_t server_us, int64_t sent_us,
                       int64_t received_us)
{
    int64_t least = server_us - received_us, most = server_us - sent_us;
    if (t->known && most < t->offset_us)
        redis_time_init(t);
    int64_t second = received_us / BUCKET_US;
    int slot = (int)(second % BUCKETS);
    if (t->bucket_at[slot] != second || t->bucket[slot] < least) {
        t->bucket[slot] = least;
        t->bucket_at[slot] = second;
    }
    t->offset_us = least;
    for (int i = 0; i < BUCKETS; i++) {
        if (t->bucket_at[i] > second - BUCKETS && t->bucket[i] > t->offset_us)
            t->offset_us = t->bucket[i];
    }
    t->known = true;
}

int64_t redis_time_ms(const struct redis_time *t, int64_t mono_us)
{
    return t->known ? (mono_us + t->offset_us) / 1000 : 0;
}
