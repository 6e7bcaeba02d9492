/* "host:port" of a channel, and the names that follow from it. Pure. */
#pragma once

#include "base/str.h"

struct h2_target {
    char host[256]; /* without brackets */
    int port;
    char authority[280];    /* :authority */
    char server_name[256];  /* what the certificate must say */
    bool server_is_address; /* then it is no SNI, and the certificate must name the address */
};

/* False: neither "host:port" nor "[address]:port", or too long. authority: NULL or "": the
 * target's. */
bool h2_target_parse(struct h2_target *t, const char *target, const char *authority);
