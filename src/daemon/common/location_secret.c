#include "daemon/common/location_secret.h"

#include "daemon/common/secrets.h"

_Static_assert(SECRETS_MAX <= LOCATION_KEYS_MAX, "each secret is a key");

int location_secret_load(struct location_keys *k, const char *path, char *err, size_t err_cap)
{
    struct secrets s;
    int rc = secrets_load(&s, "location.secret_file", path, err, err_cap);
    k->n = 0;
    for (int i = 0; rc == 0 && i < s.n; i++)
        location_key_init(&k->keys[k->n++], secrets_get(&s, i));
    secrets_wipe(&s);
    return rc;
}
