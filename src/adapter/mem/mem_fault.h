/* Faults of the in-memory fakes, scripted by the test: "the 2nd reserve from now is done, but its
 * reply is lost". */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum mem_fault_kind {
    MEM_FAULT_NONE,
    MEM_FAULT_NOT_DONE,     /* nothing happens: ERR_UNAVAIL */
    MEM_FAULT_REPLY_LOST,   /* done, but ERR_UNCERTAIN */
    MEM_FAULT_REQUEST_LOST, /* not done, and ERR_UNCERTAIN all the same */
    MEM_FAULT_REPLY_LATE,   /* done; the reply takes delay_us longer (ERR_UNCERTAIN at the op's
                               deadline if that is earlier) */
    MEM_FAULT_HELD_BACK,    /* the request arrives delay_us later and is done then, whether anybody
                               still waits or not */
    MEM_FAULT_TWICE,  /* done twice. publish: two messages; receive: the same messages are delivered
                         again at once */
    MEM_FAULT_ANSWER, /* nothing happens: the answer is `delay_us` taken as rc (an error of err.h)
                       */
};

struct mem_fault {
    int op, countdown; /* countdown 0: every call */
    enum mem_fault_kind kind;
    int64_t delay_us;
};

#define MEM_FAULTS_MAX 64
#define MEM_FAULT_OPS 64

struct mem_faults {
    struct mem_fault scripted[MEM_FAULTS_MAX];
    int n;
    int calls[MEM_FAULT_OPS]; /* how often each operation was called */
};

/* The k-th call of `op` from now (1 = the next) meets the fault; k = 0: each call until
 * mem_faults_clear. More than MEM_FAULTS_MAX abort. */
void mem_faults_add(struct mem_faults *f, int op, int k, enum mem_fault_kind kind,
                    int64_t delay_us);
void mem_faults_clear(struct mem_faults *f, int op); /* -1: of all operations */
/* For the fakes: counts one call and takes its fault. */
struct mem_fault mem_faults_take(struct mem_faults *f, int op);
