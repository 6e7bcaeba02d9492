/* What a Location's token costs: CPU time of making one, and of parsing and checking one. Words:
 * how many (1000000). Prints nanoseconds of each. */
#include "core/location_token.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000, good = 0;
    struct location_keys k = {.n = 1};
    struct location_claim c = {.user_id = 1, .item = {1001, 2001}, .epoch = 1};
    struct location_token t;
    char text[LOCATION_TOKEN_MAX];
    size_t len = 0;
    if (n < 1)
        return 2;
    location_key_init(&k.keys[0], STR("0123456789abcdef0123456789abcdef"));
    double begun = cpu_s();
    for (long i = 0; i < n; i++) {
        c.user_id = i + 1;
        len = location_token_make(&k, &c, text);
    }
    double made = cpu_s();
    for (long i = 0; i < n; i++) {
        if (location_token_parse((struct str){text, len}, &t) == 0)
            good += location_token_check(&k, &t, &c);
    }
    double checked = cpu_s();
    printf("make %.0f ns  check %.0f ns\n", (made - begun) / (double)n * 1e9,
           (checked - made) / (double)n * 1e9);
    return good == n ? 0 : 1;
}
