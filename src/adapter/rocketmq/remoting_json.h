/* The bodies of RocketMQ's remoting protocol: JSON as fastjson writes it, in which the keys of an
 * object may be numbers or objects ({"offsetTable":{{"brokerName":"b0",…}:{…}}}), so that no JSON
 * reader takes it. A pull reader that allocates nothing. It comes from the network: whatever does
 * not fit sets `bad`, which stays; check it once at the end, and take nothing for known before. */
#pragma once

#include "base/str.h"

#define REMOTING_JSON_DEPTH 16

struct remoting_json {
    const char *at, *end;
    bool bad;
};

void remoting_json_init(struct remoting_json *j, struct str text);
/* Only white space is left, and nothing was bad. */
bool remoting_json_done(struct remoting_json *j);
/* Enters an object ('{') or array ('['). False: something else is there, which is bad. */
bool remoting_json_enter(struct remoting_json *j, char open);
/* Is there another member or element? n counts them, from 0. False at the end, which is consumed.
 *     for (int n = 0; remoting_json_more(j, '}', n); n++) { key; remoting_json_colon; value } */
bool remoting_json_more(struct remoting_json *j, char close, int n);
void remoting_json_colon(struct remoting_json *j);
/* What stands between the quotes, escapes as they are; of a number: its digits. */
struct str remoting_json_text(struct remoting_json *j);
/* A member's name and its colon. */
struct str remoting_json_key(struct remoting_json *j);
/* An integer in these bounds. */
int64_t remoting_json_i64(struct remoting_json *j, int64_t min, int64_t max);
void remoting_json_skip(struct remoting_json *j); /* any value */
