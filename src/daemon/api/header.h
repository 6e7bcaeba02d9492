/* What header values of a request say. Pure; any thread. */
#pragma once

#include "base/str.h"

/* application/json, alone or with charset=utf-8 (RFC 9110's spelling of parameters). */
bool header_is_json(struct str content_type);
/* W3C trace context, version 00. Another one, or an ill-formed one, is not passed on. */
bool header_is_traceparent(struct str t);
