/* pdh.dll: performance counters.
 *
 * Stands in for: the counters of memory, processors and network that a kubelet reads for /stats/summary.
 * Invents: nearly everything. Memory in use is the machine's, processors are 5 percent busy, all else counts calls. An array has one item. */
#include <windows.h>
#include <wchar.h>

#define EXPORT __declspec(dllexport) LONG WINAPI
#define PDH_MORE_DATA ((LONG)0x800007d2)
#define WANTS_DOUBLE 0x200

struct counter
{
    WCHAR path[256];
    ULONG calls;
};

union value
{
    double number;
    LONGLONG large;
};

struct single
{
    DWORD status, padding;
    union value value;
};

struct item
{
    WCHAR *name;
    struct single single;
};

EXPORT PdhValidatePathW(const WCHAR *path) { return 0; }
EXPORT PdhOpenQuery(const WCHAR *source, DWORD_PTR user, HANDLE *query) { *query = (HANDLE)1; return 0; }
EXPORT PdhOpenQueryW(const WCHAR *source, DWORD_PTR user, HANDLE *query) { *query = (HANDLE)1; return 0; }
EXPORT PdhCloseQuery(HANDLE query) { return 0; }
EXPORT PdhCollectQueryData(HANDLE query) { return 0; }
EXPORT PdhCollectQueryDataEx(HANDLE query, DWORD seconds, HANDLE event) { return 0; }
EXPORT PdhRemoveCounter(HANDLE counter) { return 0; }

EXPORT PdhAddCounterW(HANDLE query, const WCHAR *path, DWORD_PTR user, HANDLE *out)
{
    struct counter *c = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof *c);

    lstrcpynW(c->path, path, 256);
    *out = c;
    return 0;
}

EXPORT PdhAddEnglishCounterW(HANDLE query, const WCHAR *path, DWORD_PTR user, HANDLE *out) { return PdhAddCounterW(query, path, user, out); }

static double read_counter(struct counter *c)
{
    MEMORYSTATUSEX memory = {sizeof memory};

    GlobalMemoryStatusEx(&memory);
    if (wcsstr(c->path, L"Private") || wcsstr(c->path, L"Committed")) return (double)(memory.ullTotalPhys - memory.ullAvailPhys);
    if (wcsstr(c->path, L"Processor")) return 5;
    return (double)(++c->calls * 1000);
}

static void fill(struct counter *c, DWORD format, struct single *out)
{
    out->status = 0;
    if (format & WANTS_DOUBLE) out->value.number = read_counter(c);
    else out->value.large = (LONGLONG)read_counter(c);
}

EXPORT PdhGetFormattedCounterValue(HANDLE counter, DWORD format, DWORD *type, struct single *out)
{
    fill(counter, format, out);
    if (type) *type = 0;
    return 0;
}

EXPORT PdhGetFormattedCounterArrayW(HANDLE counter, DWORD format, DWORD *size, DWORD *count, struct item *out)
{
    struct counter *c = counter;
    const DWORD need = sizeof *out + 16;

    *count = 1;
    if (!out || *size < need)
    {
        *size = need;
        return PDH_MORE_DATA;
    }
    out->name = (WCHAR *)(out + 1);
    lstrcpyW(out->name, wcsstr(c->path, L"Network") ? L"eth0" : L"_Total");
    fill(c, format, &out->single);
    return 0;
}
