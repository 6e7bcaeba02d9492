/* The consumer's side of the fake proxy: it holds long polls until the test says what comes, and
 * takes acks and changes as the test has them. */
#pragma once

#include "rocketmq_test.h"

enum { BROKER_POLLS = 64, BROKER_ASKED = 512 };

struct fake_poll {
    struct fake_call *call; /* NULL: ended */
    int batch;
    int64_t lease_ms, wait_ms, deadline_ms;
    char topic[128], group[128], broker[64];
};
/* A handle that was asked about. */
struct fake_asked {
    char handle[64], topic[128], group[128];
    int64_t ms; /* of a change */
    struct fake_call *call;
};

struct fake_broker {
    struct fake_proxy proxy; /* first */
    struct fake_poll polls[BROKER_POLLS];
    int n_polls; /* ever */
    /* acks: each entry is answered with the code of the first rule that names its handle, else OK
     */
    struct fake_asked acks[BROKER_ASKED];
    int n_acks, ack_requests;
    struct {
        const char *handle;
        int code;   /* 0: its entry is missing */
        bool twice; /* and once more, as OK */
    } ack_rules[8];
    bool hold_acks;
    /* changes: answered with handle + "'" ; or held */
    struct fake_asked changes[BROKER_ASKED];
    int n_changes, change_code;
    bool hold_changes, no_handle;
    bool dead_topic; /* there is one */
};

struct said {
    const char *id, *handle, *body, *digest;
    int attempt;
    bool gzip;
    int body_n; /* 0: of strlen */
};

void fake_broker_start(struct fake_broker *b, struct loop *l);
/* The n-th poll that was ever made (from 0), under way. */
struct fake_poll *fake_poll_at(struct fake_broker *b, int n);
int fake_polls_open(const struct fake_broker *b, const char *topic);
void fake_poll_ok(struct fake_poll *p); /* its first word */
void fake_poll_message(struct fake_poll *p, struct said m);
void fake_poll_end(struct fake_poll *p);            /* after messages */
void fake_poll_code(struct fake_poll *p, int code); /* and ends */
/* ok, the messages h<from>…h<from+n-1> with ids m<i>, end. */
void fake_poll_messages(struct fake_poll *p, int from, int n);
void fake_change_answer(struct fake_broker *b, int n, int code, const char *handle);
