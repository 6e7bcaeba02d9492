/* What meets a call of a port, for rows of "every wait × every fault". */
#pragma once

#include "adapter/mem/mem_fault.h"
#include "reserve_fixture.h" /* MS */

struct reserve_fault {
    enum mem_fault_kind kind;
    int64_t delay; /* or the answer's rc */
};

#define OK_                                                                                        \
    {                                                                                              \
        MEM_FAULT_NONE, 0                                                                          \
    }
#define NOT_DONE                                                                                   \
    {                                                                                              \
        MEM_FAULT_NOT_DONE, 0                                                                      \
    }
#define REPLY_LOST                                                                                 \
    {                                                                                              \
        MEM_FAULT_REPLY_LOST, 0                                                                    \
    }
#define REQUEST_LOST                                                                               \
    {                                                                                              \
        MEM_FAULT_REQUEST_LOST, 0                                                                  \
    }
#define LATE(ms)                                                                                   \
    {                                                                                              \
        MEM_FAULT_REPLY_LATE, (ms)*MS                                                              \
    }
#define HELD_BACK(ms)                                                                              \
    {                                                                                              \
        MEM_FAULT_HELD_BACK, (ms)*MS                                                               \
    }
#define TWICE                                                                                      \
    {                                                                                              \
        MEM_FAULT_TWICE, 0                                                                         \
    }
#define ANSWER(rc)                                                                                 \
    {                                                                                              \
        MEM_FAULT_ANSWER, rc                                                                       \
    }
