/* dismapi.dll: optional features of Windows.
 *
 * Stands in for: the DISM API, which Wine does not have. The states lie with the machine's hardware (bed.h).
 * Invents: that enabling takes no time. Sessions and initialization are not checked. */
#include "bed.h"

#define EXPORT __declspec(dllexport) HRESULT WINAPI

/* DismFeatureInfo begins so; nothing behind it is filled in. dismapi.h packs it to one byte. */
#pragma pack(push, 1)
struct feature
{
    const WCHAR *name;
    DWORD state;
    BYTE rest[64];
};
#pragma pack(pop)

EXPORT DismInitialize(DWORD level, const WCHAR *log, const WCHAR *scratch) { return S_OK; }
EXPORT DismOpenSession(const WCHAR *image, const WCHAR *windows, const WCHAR *drive, UINT *session) { *session = 1; return S_OK; }
EXPORT DismCloseSession(UINT session) { return S_OK; }
EXPORT DismShutdown(void) { return S_OK; }
EXPORT DismDelete(void *object) { free(object); return S_OK; }

/* feature_call returns the number that the hardware answers, -1 for none. */
static int feature_call(const char *verb, const WCHAR *name)
{
    char message[256], *text = bed_utf8(name), *answer;
    int number = -1;

    snprintf(message, sizeof message, "%s\n%s", verb, text);
    free(text);
    if (!(answer = bed_call(message))) return -1;
    number = atoi(answer);
    free(answer);
    return number;
}

EXPORT DismGetFeatureInfo(UINT session, const WCHAR *name, const WCHAR *identifier, DWORD kind, struct feature **out)
{
    int state = feature_call("feature", name);

    if (state < 0) return (HRESULT)0x800f080c; /* CBS_E_UNKNOWN_UPDATE, DISM's answer to a feature that there is not */
    *out = calloc(1, sizeof **out);
    (*out)->state = (DWORD)state;
    return S_OK;
}

EXPORT DismEnableFeature(UINT session, const WCHAR *name, const WCHAR *identifier, DWORD kind, BOOL limit, const WCHAR **sources, UINT count,
                         BOOL all, HANDLE cancel, void *progress, void *user)
{
    int status = feature_call("enable-feature", name);
    return status < 0 ? (HRESULT)0x800f080c : (HRESULT)status;
}
