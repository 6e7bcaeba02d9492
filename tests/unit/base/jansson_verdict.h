/* jansson's opinion, in a file of its own: its header and base/json.h name the same constants. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

bool jansson_accepts(const char *text, size_t n);
