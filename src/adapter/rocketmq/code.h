/* What a proxy's answer means to us. The codes are of apache.rocketmq.v2; each belongs to a class,
 * and the class says what is known of the world and what to do next. */
#pragma once

#include "base/str.h"

enum { /* the codes that are told apart by more than their class */
       RMQ_CODE_OK = 20000,
       RMQ_CODE_INTERNAL = 50001, /* of a receive also: our settings are not known there */
       RMQ_CODE_NOT_IMPLEMENTED = 50100,
};

enum rmq_class {
    RMQ_OK,
    RMQ_MIXED,         /* the entries differ: each has its own status */
    RMQ_EMPTY,         /* the normal end of a long poll */
    RMQ_REFUSED,       /* certainly not done, and will stay so */
    RMQ_EXPIRED,       /* the lease ran out: never asked again */
    RMQ_RESYNC,        /* our settings are not there: rmq_session_resync, then again */
    RMQ_DENIED,        /* credentials or rights */
    RMQ_MISSING_TOPIC, /* or of another type than ours */
    RMQ_MISSING_GROUP,
    RMQ_NO_QUEUE,  /* none readable or writable: the route is asked for anew */
    RMQ_THROTTLED, /* not done; back off */
    RMQ_UNKNOWN,   /* it may have been done */
};

enum rmq_class rmq_class_of(int code);
/* "TOO_MANY_REQUESTS"; "?" of a code that is not known. Static. */
const char *rmq_code_name(int code);
/* The class in terms of err.h: 0 (OK, EMPTY, MIXED), else what is known of the world. */
int rmq_class_rc(enum rmq_class c);
