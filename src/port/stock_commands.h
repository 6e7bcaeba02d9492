/* Commands that the queue accepted (rule 27). It may lose what it confirmed, and whoever was told
 * 202 does not ask again: they are remembered beside it until PostgreSQL knows them
 * (docs/decisions/0026). Part of port/stock.h. */
#pragma once

#include "core/event.h"

/* --- remember: rc 0 it is remembered, now or before (the first body stays: a payment's accepted_at
 * never grows); 1 no such item; 2 there are `most` of the item --- */
struct stock_remember {
    struct op op;
    struct item item;
    struct uuid message_id;
    struct str body; /* borrowed until on_done; at most EVENT_MAX_BYTES */
    int most;
    struct op_space space;
};

/* --- remembered: those from before a time, in steps; rc 0: a page, and whether there is another.
 * Of one that had more than fits the rest comes next, if what it brought was forgotten --- */
#define STOCK_REMEMBERED_MAX 32
struct stock_command {
    struct uuid message_id;
    size_t body_len;
    char body[EVENT_MAX_BYTES];
};
struct stock_remembered {
    struct op op;
    struct item item;
    int64_t before_ms;          /* the store's clock, when it was remembered */
    char cursor[24];            /* in/out; starts as "0" */
    struct stock_command *rows; /* out: into the caller's array of STOCK_REMEMBERED_MAX */
    int n, unreadable;          /* out: what is no command is only counted */
    bool more;                  /* out */
    struct op_space space;
};

/* --- forget: what is not there is forgotten, too. rc 0 --- */
#define STOCK_FORGET_MAX 64
struct stock_forget {
    struct op op;
    struct item item;
    const struct uuid *message_ids; /* borrowed until on_done */
    int n;                          /* 1…STOCK_FORGET_MAX */
    struct op_space space;
};
