/* An estimate of a server's clock from the answers of one connection (rule 15), so that a deadline
 * can be sent in the server's own time. Conservative: never later than the truth by more than the
 * answer's age allows. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct redis_time {
    bool known;
    int64_t offset_us; /* server wall clock − our monotonic clock: the maximum of (T − receive time)
                          over 10 s */
    int64_t bucket[10]; /* maxima per second */
    int64_t bucket_at[10];
};
void redis_time_init(struct redis_time *t);
/* An answer that carried server time T (µs since 1970), sent and received at our monotonic times.
 */
void redis_time_sample(struct redis_time *t, int64_t server_us, int64_t sent_us,
                       int64_t received_us);
/* A monotonic instant in the server's time (ms, rounded down); 0 while unknown. */
int64_t redis_time_ms(const struct redis_time *t, int64_t mono_us);
