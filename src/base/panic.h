/* The end of the process for a programmer's error: the message on standard error, then abort(). For
 * states that no input and no failure of a dependency can bring about; those are errors, see err.h.
 */
#pragma once

_Noreturn void panic(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
