#include "base/parse.h"

#include "base/err.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int parse_u64(struct str s, uint64_t max, uint64_t *out)
{
    if (s.len == 0 || s.len > 20 || (s.len > 1 && s.ptr[0] == '0'))
        return ERR_INVALID;
    uint64_t v = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.ptr[i]))
            return ERR_INVALID;
        uint64_t digit = (uint64_t)(s.ptr[i] - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return ERR_INVALID;
        v = v * 10 + digit;
    }
    if (v > max)
        return ERR_INVALID;
    *out = v;
    return 0;
}

int parse_i64(struct str s, int64_t min, int64_t max, int64_t *out)
{
    bool negative = s.len && s.ptr[0] == '-';
    uint64_t size;
    if (negative)
        s = (struct str){s.ptr + 1, s.len - 1};
    int rc = parse_u64(s, negative ? UINT64_C(1) << 63 : INT64_MAX, &size);
    if (rc)
        return rc;
    if (negative && size == 0)
        return ERR_INVALID;
    int64_t v = negative ? -(int64_t)(size - 1) - 1 : (int64_t)size;
    if (v < min || v > max)
        return ERR_INVALID;
    *out = v;
    return 0;
}

static bool is_host_char(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_';
}

int parse_host_port(struct str s, struct str *host, int *port)
{
    size_t colon = s.len;
    while (colon > 0 && s.ptr[colon - 1] != ':')
        colon--;
    int64_t v;
    if (colon < 2 || parse_i64((struct str){s.ptr + colon, s.len - colon}, 1, 65535, &v))
        return ERR_INVALID;
    struct str h = {s.ptr, colon - 1};
    bool brackets = h.len > 2 && h.ptr[0] == '[' && h.ptr[h.len - 1] == ']';
    if (brackets)
        h = (struct str){h.ptr + 1, h.len - 2};
    for (size_t i = 0; i < h.len; i++) {
        if (!is_host_char(h.ptr[i]) && !(brackets && h.ptr[i] == ':'))
            return ERR_INVALID;
    }
    *host = h;
    *port = (int)v;
    return 0;
}

int parse_bool(struct str s, bool *out)
{
    if (str_eq(s, STR("true")) || str_eq(s, STR("yes")) || str_eq(s, STR("on")))
        *out = true;
    else if (str_eq(s, STR("false")) || str_eq(s, STR("no")) || str_eq(s, STR("off")))
        *out = false;
    else
        return ERR_INVALID;
    return 0;
}

struct unit {
    struct str name;
    int64_t factor;
};

static int parse_with_unit(struct str s, const struct unit *units, size_t n, int64_t *out)
{
    size_t digits = 0;
    while (digits < s.len && is_digit(s.ptr[digits]))
        digits++;
    struct str unit = {s.ptr + digits, s.len - digits};
    for (size_t i = 0; i < n; i++) {
        if (!str_eq(unit, units[i].name))
            continue;
        uint64_t v;
        int rc =
            parse_u64((struct str){s.ptr, digits}, (uint64_t)(INT64_MAX / units[i].factor), &v);
        if (rc == 0)
            *out = (int64_t)v * units[i].factor;
        return rc;
    }
    return ERR_INVALID;
}

int parse_duration_us(struct str s, int64_t *out)
{
    static const struct unit units[] = {
        {STR("us"), 1},
        {STR("ms"), 1000},
        {STR("s"), 1000000},
        {STR("m"), INT64_C(60) * 1000000},
        {STR("h"), INT64_C(3600) * 1000000},
        {STR("d"), INT64_C(86400) * 1000000},
    };
    if (str_eq(s, STR("0"))) {
        *out = 0;
        return 0;
    }
    return parse_with_unit(s, units, sizeof units / sizeof *units, out);
}

int parse_size(struct str s, int64_t *out)
{
    static const struct unit units[] = {
        {STR(""), 1},
        {STR("KiB"), INT64_C(1) << 10},
        {STR("MiB"), INT64_C(1) << 20},
        {STR("GiB"), INT64_C(1) << 30},
    };
    return parse_with_unit(s, units, sizeof units / sizeof *units, out);
}

/* Days since 1970-01-01 in the proleptic Gregorian calendar, and back. Years are counted from
 * March, so that the leap day is a year's last; 400 years always have 146097 days. */
static int64_t days_from_date(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_from_days(int64_t days, int *year, int *month, int *day)
{
    int64_t z = days + 719468; /* never negative here: years from 1970 on */
    int64_t era = z / 146097;
    int64_t of_era = z - era * 146097;
    int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * y + y / 4 - y / 100);
    int64_t m = (5 * of_year + 2) / 153;
    *day = (int)(of_year - (153 * m + 2) / 5 + 1);
    *month = (int)(m < 10 ? m + 3 : m - 9);
    *year = (int)(y + era * 400 + (*month <= 2));
}

static int days_in_month(int year, int month)
{
    static const char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap);
}

/* Takes exactly n digits (and before them `lead`, unless 0) from s. */
static bool take_digits(struct str *s, char lead, size_t n, int *out)
{
    if (lead) {
        if (s->len == 0 || s->ptr[0] != lead)
            return false;
        s->ptr++;
        s->len--;
    }
    if (s->len < n)
        return false;
    int v = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(s->ptr[i]))
            return false;
        v = v * 10 + (s->ptr[i] - '0');
    }
    s->ptr += n;
    s->len -= n;
    *out = v;
    return true;
}

int parse_time_ms(struct str s, int64_t *out)
{
    int year, month, day, hour, minute, second;
    if (!take_digits(&s, 0, 4, &year) || !take_digits(&s, '-', 2, &month) ||
        !take_digits(&s, '-', 2, &day) || !take_digits(&s, 'T', 2, &hour) ||
        !take_digits(&s, ':', 2, &minute) || !take_digits(&s, ':', 2, &second))
        return ERR_INVALID;
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 ||
        minute > 59 || second > 59)
        return ERR_INVALID;
    int ms = 0;
    if (s.len && s.ptr[0] == '.') {
        size_t n = 1;
        for (int weight = 100; n < s.len && is_digit(s.ptr[n]); n++, weight /= 10)
            ms += weight * (s.ptr[n] - '0');
        if (n == 1)
            return ERR_INVALID;
        s = (struct str){s.ptr + n, s.len - n};
    }
    int offset_minutes = 0;
    if (!str_eq(s, STR("Z"))) {
        char sign = s.len ? s.ptr[0] : 0;
        int h, m;
        if ((sign != '+' && sign != '-') || !take_digits(&s, sign, 2, &h) ||
            !take_digits(&s, ':', 2, &m) || s.len || h > 23 || m > 59)
            return ERR_INVALID;
        offset_minutes = sign == '+' ? h * 60 + m : -(h * 60 + m);
    }
    int64_t minutes = days_from_date(year, month, day) * 1440 + hour * 60 + minute - offset_minutes;
    *out = (minutes * 60 + second) * 1000 + ms;
    return 0;
}

static char *put_digits(char *at, int v, int n)
{
    for (int i = n - 1; i >= 0; i--, v /= 10)
        at[i] = (char)('0' + v % 10);
    return at + n;
}

size_t parse_format_time_ms(char *dst, int64_t ms)
{
    const int64_t day_ms = INT64_C(86400000), last = INT64_C(253402300799999);
    if (ms < 0)
        ms = 0;
    if (ms > last)
        ms = last;
    int year, month, day, rest = (int)(ms % day_ms);
    date_from_days(ms / day_ms, &year, &month, &day);
    char *at = put_digits(dst, year, 4);
    *at++ = '-';
    at = put_digits(at, month, 2);
    *at++ = '-';
    at = put_digits(at, day, 2);
    *at++ = 'T';
    at = put_digits(at, rest / 3600000, 2);
    *at++ = ':';
    at = put_digits(at, rest / 60000 % 60, 2);
    *at++ = ':';
    at = put_digits(at, rest / 1000 % 60, 2);
    *at++ = '.';
    at = put_digits(at, rest % 1000, 3);
    *at++ = 'Z';
    return (size_t)(at - dst);
}
