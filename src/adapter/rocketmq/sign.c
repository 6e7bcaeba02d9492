#include "adapter/rocketmq/sign.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void rmq_sign(const char *secret_key, const char *date, char hex[41])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    HMAC(EVP_sha1(), secret_key, (int)strlen(secret_key), (const unsigned char *)date, strlen(date),
         mac, &n);
    for (int i = 0; i < 20; i++)
        snprintf(hex + 2 * i, 3, "%02X", mac[i]);
}

void rmq_signer_at(struct rmq_signer *s, int64_t wall_us)
{
    int64_t second = wall_us / 1000000;
    if (second == s->second)
        return;
    s->second = second;
    time_t t = (time_t)second;
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(s->date, sizeof s->date, "%Y%m%dT%H%M%SZ", &tm);
    if (!s->access_key[0])
        return;
    char hex[41];
    rmq_sign(s->secret_key, s->date, hex);
    snprintf(s->authorization, sizeof s->authorization,
             "MQv2-HMAC-SHA1 Credential=%s, SignedHeaders=x-mq-date-time, Signature=%s",
             s->access_key, hex);
}
