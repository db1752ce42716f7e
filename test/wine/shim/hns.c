/* computenetwork.dll and vmcompute.dll: the Host Compute Network.
 *
 * Stands in for: HNS, which Wine does not have. Each call goes to the machine's hardware (bed.h), where test/wine/hns keeps networks, endpoints,
 * namespaces and load balancers.
 * Invents: nothing here. Of compute systems there are none. */
#include "bed.h"
#include <objbase.h>

#define EXPORT __declspec(dllexport) HRESULT WINAPI

struct handle
{
    GUID id;
};

static WCHAR *task_text(const char *utf8)
{
    int size = MultiByteToWideChar(CP_UTF8, 0, utf8, -1, NULL, 0);
    WCHAR *out = CoTaskMemAlloc(size * sizeof *out);

    MultiByteToWideChar(CP_UTF8, 0, utf8, -1, out, size);
    return out;
}

static void print_id(const GUID *id, char *out)
{
    *out = 0;
    if (!id) return;
    sprintf(out, "%08lx-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x", id->Data1, id->Data2, id->Data3, id->Data4[0], id->Data4[1],
            id->Data4[2], id->Data4[3], id->Data4[4], id->Data4[5], id->Data4[6], id->Data4[7]);
}

static void scan_id(const char *text, GUID *id)
{
    unsigned v[11];

    if (sscanf(text, "%8x-%4x-%4x-%2x%2x-%2x%2x%2x%2x%2x%2x", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7, v + 8, v + 9, v + 10) != 11) return;
    id->Data1 = v[0];
    id->Data2 = (unsigned short)v[1];
    id->Data3 = (unsigned short)v[2];
    for (int i = 0; i < 8; i++) id->Data4[i] = (unsigned char)v[3 + i];
}

/* call asks for fn. The answer is a status in hexadecimal digits, the object's id, and a document; payload gets the document. */
static HRESULT call(const char *fn, const GUID *id, const GUID *network, const WCHAR *path, const WCHAR *json, GUID *made, char **payload)
{
    char id_text[40], network_text[40], *path_text = bed_utf8(path), *json_text = bed_utf8(json);
    size_t size = strlen(fn) + strlen(path_text) + strlen(json_text) + 100;
    char *message = malloc(size), *answer, *second, *third;
    HRESULT status;

    print_id(id, id_text);
    print_id(network, network_text);
    snprintf(message, size, "hns\n%s\n%s\n%s\n%s\n%s", fn, id_text, network_text, path_text, json_text);
    answer = bed_call(message);
    free(message);
    free(path_text);
    free(json_text);
    if (!answer) return HRESULT_FROM_WIN32(ERROR_SERVICE_NOT_ACTIVE);
    status = (HRESULT)strtoul(answer, NULL, 16);
    second = strchr(answer, '\n');
    third = second ? strchr(second + 1, '\n') : NULL;
    if (!third) status = E_UNEXPECTED;
    else
    {
        if (made) scan_id(second + 1, made);
        *payload = _strdup(third + 1);
    }
    free(answer);
    return status;
}

/* give hands an answer on; payload is a pointer since arguments are evaluated in any order. */
static HRESULT give(HRESULT status, char **payload, WCHAR **document, WCHAR **error)
{
    if (FAILED(status))
    {
        if (error && *payload && **payload) *error = task_text(*payload);
    }
    else if (document && *payload) *document = task_text(*payload);
    free(*payload);
    return status;
}

static HRESULT give_handle(HRESULT status, char **payload, const GUID *id, struct handle **out, WCHAR **error)
{
    if (SUCCEEDED(status))
    {
        *out = malloc(sizeof **out);
        (*out)->id = *id;
    }
    return give(status, payload, NULL, error);
}

static HRESULT enumerate(const char *fn, const WCHAR *query, WCHAR **out, WCHAR **error)
{
    char *payload = NULL;
    return give(call(fn, NULL, NULL, NULL, query, NULL, &payload), &payload, out, error);
}

static HRESULT open_object(const char *fn, const GUID *id, struct handle **out, WCHAR **error)
{
    char *payload = NULL;
    GUID found = *id;
    return give_handle(call(fn, id, NULL, NULL, NULL, &found, &payload), &payload, &found, out, error);
}

static HRESULT create_object(const char *fn, const GUID *id, const struct handle *network, const WCHAR *settings, struct handle **out, WCHAR **error)
{
    char *payload = NULL;
    GUID made = {0};
    return give_handle(call(fn, id, network ? &network->id : NULL, NULL, settings, &made, &payload), &payload, &made, out, error);
}

static HRESULT ask(const char *fn, const GUID *id, const WCHAR *json, WCHAR **out, WCHAR **error)
{
    char *payload = NULL;
    return give(call(fn, id, NULL, NULL, json, NULL, &payload), &payload, out, error);
}

#define OBJECT(KIND, PLURAL) \
    EXPORT HcnEnumerate##PLURAL(const WCHAR *query, WCHAR **out, WCHAR **error) { return enumerate("Enumerate" #KIND, query, out, error); } \
    EXPORT HcnOpen##KIND(const GUID *id, struct handle **out, WCHAR **error) { return open_object("Open" #KIND, id, out, error); } \
    EXPORT HcnModify##KIND(struct handle *h, const WCHAR *settings, WCHAR **error) { return ask("Modify" #KIND, &h->id, settings, NULL, error); } \
    EXPORT HcnQuery##KIND##Properties(struct handle *h, const WCHAR *query, WCHAR **out, WCHAR **error) { return ask("Query" #KIND, &h->id, query, out, error); } \
    EXPORT HcnDelete##KIND(const GUID *id, WCHAR **error) { return ask("Delete" #KIND, id, NULL, NULL, error); } \
    EXPORT HcnClose##KIND(struct handle *h) { free(h); return S_OK; }

#define MADE_ALONE(KIND) \
    EXPORT HcnCreate##KIND(const GUID *id, const WCHAR *settings, struct handle **out, WCHAR **error) { return create_object("Create" #KIND, id, NULL, settings, out, error); }

OBJECT(Network, Networks)
OBJECT(Endpoint, Endpoints)
OBJECT(Namespace, Namespaces)
OBJECT(LoadBalancer, LoadBalancers)
OBJECT(SdnRoute, SdnRoutes)
MADE_ALONE(Network)
MADE_ALONE(Namespace)
MADE_ALONE(LoadBalancer)
MADE_ALONE(SdnRoute)

EXPORT HcnCreateEndpoint(struct handle *network, const GUID *id, const WCHAR *settings, struct handle **out, WCHAR **error)
{
    return create_object("CreateEndpoint", id, network, settings, out, error);
}

/* HNSCall is the older interface: a method, a path and a document. */
EXPORT HNSCall(const WCHAR *method, const WCHAR *path, const WCHAR *document, WCHAR **out)
{
    char fn[64], *method_text = bed_utf8(method), *payload = NULL;

    snprintf(fn, sizeof fn, "HNS:%s", method_text);
    free(method_text);
    return give(call(fn, NULL, NULL, path, document, NULL, &payload), &payload, out, NULL);
}

EXPORT HcsEnumerateComputeSystems(const WCHAR *query, WCHAR **out, WCHAR **error)
{
    *out = task_text("[]");
    return S_OK;
}
