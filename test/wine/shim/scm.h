/* scm.h: what Wine 10's service manager does not know.
 *
 * Stands in for: failure actions, their flag and the service's SID type (levels 2, 4 and 5 of QueryServiceConfig2), dependencies in the answer
 * of QueryServiceConfig, the list of dependent services, and STOPPED of a service whose process ends while it stops.
 * Invents: nothing that Windows would store elsewhere: everything lies in the values of Services\<name> where Windows has it. But nobody
 * restarts a service that failed, dependencies are not started first, and stopping a service that others need is not refused. */
#ifndef SCM_H
#define SCM_H
#include "patch.h"
#include <winsvc.h>
#include <wchar.h>

#define SERVICES L"SYSTEM\\CurrentControlSet\\Services"
#define LONGEST_NAME 80
#define MOST_HANDLES 128
#define MOST_ACTIONS 64

typedef BOOL(WINAPI *query_config_t)(SC_HANDLE, QUERY_SERVICE_CONFIGW *, DWORD, DWORD *);
typedef BOOL(WINAPI *query_config2_t)(SC_HANDLE, DWORD, BYTE *, DWORD, DWORD *);
typedef BOOL(WINAPI *change_config2_t)(SC_HANDLE, DWORD, void *);
typedef SC_HANDLE(WINAPI *open_service_t)(SC_HANDLE, const WCHAR *, DWORD);
typedef SC_HANDLE(WINAPI *create_service_t)(SC_HANDLE, const WCHAR *, const WCHAR *, DWORD, DWORD, DWORD, DWORD, const WCHAR *,
                                            const WCHAR *, DWORD *, const WCHAR *, const WCHAR *, const WCHAR *);
typedef BOOL(WINAPI *set_status_t)(SERVICE_STATUS_HANDLE, SERVICE_STATUS *);

static query_config_t real_query_config;
static query_config2_t real_query_config2;
static change_config2_t real_change_config2;
static open_service_t real_open_service;
static create_service_t real_create_service;
static set_status_t real_set_status;

/* A handle does not say which service it is of, so the names are remembered; the oldest are forgotten. */
static struct
{
    SC_HANDLE handle;
    WCHAR name[LONGEST_NAME];
} scm_handles[MOST_HANDLES];
static LONG scm_next;

static void scm_remember(SC_HANDLE handle, const WCHAR *name)
{
    int i;

    for (i = 0; i < MOST_HANDLES && scm_handles[i].handle != handle; i++) {}
    if (i == MOST_HANDLES) i = (int)(InterlockedIncrement(&scm_next) % MOST_HANDLES);
    scm_handles[i].handle = handle;
    lstrcpynW(scm_handles[i].name, name, LONGEST_NAME);
}

static const WCHAR *scm_name(SC_HANDLE handle)
{
    for (int i = 0; i < MOST_HANDLES; i++)
        if (handle && scm_handles[i].handle == handle) return scm_handles[i].name;
    return NULL;
}

static HKEY scm_key(SC_HANDLE handle)
{
    WCHAR path[200];
    const WCHAR *name = scm_name(handle);
    HKEY key = NULL;

    if (!name) return NULL;
    swprintf(path, 200, L"%ls\\%ls", SERVICES, name);
    RegOpenKeyExW(HKEY_LOCAL_MACHINE, path, 0, KEY_READ | KEY_WRITE, &key);
    return key;
}

static SC_HANDLE WINAPI my_open_service(SC_HANDLE manager, const WCHAR *name, DWORD access)
{
    SC_HANDLE handle = real_open_service(manager, name, access);
    if (handle) scm_remember(handle, name);
    return handle;
}

static SC_HANDLE WINAPI my_create_service(SC_HANDLE manager, const WCHAR *name, const WCHAR *display, DWORD access, DWORD type, DWORD start,
                                          DWORD error, const WCHAR *path, const WCHAR *group, DWORD *tag, const WCHAR *dependencies,
                                          const WCHAR *account, const WCHAR *password)
{
    SC_HANDLE handle = real_create_service(manager, name, display, access, type, start, error, path, group, tag, dependencies, account, password);
    if (handle) scm_remember(handle, name);
    return handle;
}

static const WCHAR *scm_number(DWORD level) { return level == 4 ? L"FailureActionsOnNonCrashFailures" : L"ServiceSidType"; }

/* scm_text appends a value to a buffer and returns how many bytes it took. */
static DWORD scm_text(HKEY key, const WCHAR *value, BYTE *out, DWORD room)
{
    DWORD size = room;

    if (RegQueryValueExW(key, value, NULL, NULL, out, &size) || size <= sizeof(WCHAR)) return 0;
    return size;
}

/* scm_actions answers SERVICE_CONFIG_FAILURE_ACTIONS. The value holds a reset period, two unused numbers, a count, an offset and the pairs. */
static DWORD scm_actions(HKEY key, SERVICE_FAILURE_ACTIONSW *out, BYTE *data)
{
    DWORD stored[5 + 2 * MOST_ACTIONS] = {0}, size = sizeof stored, used = 0, text;

    RegQueryValueExW(key, L"FailureActions", NULL, NULL, (BYTE *)stored, &size);
    if (stored[3] > MOST_ACTIONS) stored[3] = MOST_ACTIONS;
    memset(out, 0, sizeof *out);
    out->dwResetPeriod = stored[0];
    out->cActions = stored[3];
    if (out->cActions)
    {
        used = out->cActions * sizeof(SC_ACTION);
        memcpy(data, stored + 5, used);
        out->lpsaActions = (SC_ACTION *)data;
    }
    text = scm_text(key, L"RebootMessage", data + used, 800);
    if (text) out->lpRebootMsg = (WCHAR *)(data + used);
    used += text;
    text = scm_text(key, L"FailureCommand", data + used, 800);
    if (text) out->lpCommand = (WCHAR *)(data + used);
    return used + text;
}

static void *scm_moved(void *pointer, BYTE *from, BYTE *to) { return pointer ? to + ((BYTE *)pointer - from) : NULL; }

static BOOL scm_fail(DWORD error)
{
    SetLastError(error);
    return FALSE;
}

static BOOL WINAPI my_query_config2(SC_HANDLE service, DWORD level, BYTE *out, DWORD size, DWORD *needed)
{
    SERVICE_FAILURE_ACTIONSW actions;
    BYTE data[sizeof(SC_ACTION) * MOST_ACTIONS + 1600];
    DWORD number = 0, length = sizeof number;
    HKEY key;

    if (level != 2 && level != 4 && level != 5) return real_query_config2(service, level, out, size, needed);
    if (!(key = scm_key(service))) return scm_fail(ERROR_INVALID_HANDLE);
    if (level != 2)
    {
        RegQueryValueExW(key, scm_number(level), NULL, NULL, (BYTE *)&number, &length);
        RegCloseKey(key);
        *needed = sizeof number;
        if (size < sizeof number) return scm_fail(ERROR_INSUFFICIENT_BUFFER);
        memcpy(out, &number, sizeof number);
        return TRUE;
    }
    length = scm_actions(key, &actions, data);
    RegCloseKey(key);
    *needed = sizeof actions + length;
    if (size < *needed) return scm_fail(ERROR_INSUFFICIENT_BUFFER);
    actions.lpsaActions = scm_moved(actions.lpsaActions, data, out + sizeof actions);
    actions.lpRebootMsg = scm_moved(actions.lpRebootMsg, data, out + sizeof actions);
    actions.lpCommand = scm_moved(actions.lpCommand, data, out + sizeof actions);
    memcpy(out, &actions, sizeof actions);
    memcpy(out + sizeof actions, data, length);
    return TRUE;
}

/* scm_write keeps a text; NULL leaves what is there, "" removes it (ChangeServiceConfig2). */
static void scm_write(HKEY key, const WCHAR *value, const WCHAR *text)
{
    if (!text) return;
    if (*text) RegSetValueExW(key, value, 0, REG_SZ, (const BYTE *)text, (lstrlenW(text) + 1) * sizeof *text);
    else RegDeleteValueW(key, value);
}

static void scm_keep_actions(HKEY key, const SERVICE_FAILURE_ACTIONSW *actions)
{
    DWORD stored[5 + 2 * MOST_ACTIONS] = {0};

    scm_write(key, L"RebootMessage", actions->lpRebootMsg);
    scm_write(key, L"FailureCommand", actions->lpCommand);
    if (!actions->lpsaActions) return;
    if (!actions->cActions)
    {
        RegDeleteValueW(key, L"FailureActions");
        return;
    }
    stored[0] = actions->dwResetPeriod;
    stored[3] = actions->cActions > MOST_ACTIONS ? MOST_ACTIONS : actions->cActions;
    stored[4] = 5 * sizeof *stored;
    memcpy(stored + 5, actions->lpsaActions, stored[3] * sizeof(SC_ACTION));
    RegSetValueExW(key, L"FailureActions", 0, REG_BINARY, (BYTE *)stored, 5 * sizeof *stored + stored[3] * sizeof(SC_ACTION));
}

static BOOL WINAPI my_change_config2(SC_HANDLE service, DWORD level, void *info)
{
    HKEY key;

    if (level != 2 && level != 4 && level != 5) return real_change_config2(service, level, info);
    if (!(key = scm_key(service))) return scm_fail(ERROR_INVALID_HANDLE);
    if (level == 2) scm_keep_actions(key, info);
    else RegSetValueExW(key, scm_number(level), 0, REG_DWORD, info, sizeof(DWORD));
    RegCloseKey(key);
    return TRUE;
}

/* scm_depends reads the services that a key's service needs, as a list that ends with an empty text. */
static DWORD scm_depends(HKEY key, WCHAR *out, DWORD bytes)
{
    DWORD size = bytes - 2 * sizeof *out;

    memset(out, 0, bytes);
    if (RegQueryValueExW(key, L"DependOnService", NULL, NULL, (BYTE *)out, &size)) return 0;
    return size;
}

static BOOL WINAPI my_query_config(SC_HANDLE service, QUERY_SERVICE_CONFIGW *out, DWORD size, DWORD *needed)
{
    WCHAR list[512];
    DWORD length = 0, rest = 0;
    HKEY key = scm_key(service);
    BOOL ok;

    if (key)
    {
        length = scm_depends(key, list, sizeof list);
        RegCloseKey(key);
    }
    if (length <= sizeof *list) return real_query_config(service, out, size, needed);
    length += 2 * sizeof *list;
    ok = real_query_config(service, out, size, &rest);
    if (!ok && GetLastError() != ERROR_INSUFFICIENT_BUFFER) return FALSE;
    rest = (rest + 1) & ~1u;
    *needed = rest + length;
    if (!ok || size < *needed) return scm_fail(ERROR_INSUFFICIENT_BUFFER);
    out->lpDependencies = (WCHAR *)((BYTE *)out + rest);
    memcpy(out->lpDependencies, list, length);
    return TRUE;
}

static BOOL scm_needs(HKEY services, const WCHAR *name, const WCHAR *needed)
{
    WCHAR list[512];
    BOOL found = FALSE;
    HKEY key;

    if (RegOpenKeyExW(services, name, 0, KEY_READ, &key)) return FALSE;
    if (scm_depends(key, list, sizeof list))
        for (WCHAR *p = list; *p; p += lstrlenW(p) + 1) found = found || !lstrcmpiW(p, needed);
    RegCloseKey(key);
    return found;
}

static BOOL scm_status(SC_HANDLE manager, const WCHAR *name, DWORD mask, SERVICE_STATUS *status)
{
    SC_HANDLE service = real_open_service(manager, name, SERVICE_QUERY_STATUS);

    if (!service) return FALSE;
    memset(status, 0, sizeof *status);
    QueryServiceStatus(service, status);
    CloseServiceHandle(service);
    return (mask & (status->dwCurrentState == SERVICE_STOPPED ? SERVICE_INACTIVE : SERVICE_ACTIVE)) != 0;
}

static BOOL WINAPI my_enum_dependents(SC_HANDLE service, DWORD mask, ENUM_SERVICE_STATUSW *out, DWORD size, DWORD *needed, DWORD *count)
{
    const WCHAR *me = scm_name(service);
    BYTE *top = (BYTE *)out + size;
    WCHAR name[128];
    DWORD used = 0, length;
    SC_HANDLE manager;
    HKEY services;

    *count = *needed = 0;
    if (!me) return scm_fail(ERROR_INVALID_HANDLE);
    if (RegOpenKeyExW(HKEY_LOCAL_MACHINE, SERVICES, 0, KEY_READ, &services)) return TRUE;
    manager = OpenSCManagerW(NULL, NULL, SC_MANAGER_CONNECT);
    for (DWORD i = 0; length = 128, !RegEnumKeyExW(services, i, name, &length, NULL, NULL, NULL, NULL); i++)
    {
        SERVICE_STATUS status;
        DWORD bytes = (lstrlenW(name) + 1) * sizeof *name;

        if (!scm_needs(services, name, me) || !scm_status(manager, name, mask, &status)) continue;
        *needed += sizeof *out + bytes;
        if (used + sizeof *out + bytes > size) continue;
        used += sizeof *out + bytes;
        top -= bytes;
        memcpy(top, name, bytes);
        out[*count].lpServiceName = out[*count].lpDisplayName = (WCHAR *)top;
        out[*count].ServiceStatus = status;
        ++*count;
    }
    CloseServiceHandle(manager);
    RegCloseKey(services);
    if (*needed > used) return scm_fail(ERROR_MORE_DATA);
    *needed = 0;
    return TRUE;
}

static SERVICE_STATUS_HANDLE scm_own;
static SERVICE_STATUS scm_said;
static BOOL scm_over;
/* What a service says reaches the manager in the order in which it says it. A program that ends while one of its threads still says
 * STOP_PENDING would otherwise stop for ever. */
static SRWLOCK scm_lock = SRWLOCK_INIT;

static BOOL WINAPI my_set_status(SERVICE_STATUS_HANDLE handle, SERVICE_STATUS *status)
{
    BOOL ok = TRUE;

    AcquireSRWLockExclusive(&scm_lock);
    if (!scm_over)
    {
        scm_own = handle;
        scm_said = *status;
        ok = real_set_status(handle, status);
    }
    ReleaseSRWLockExclusive(&scm_lock);
    return ok;
}

/* my_exit says STOPPED for a service that ends after it has said STOP_PENDING; Wine notices the end of running ones only. */
static void WINAPI my_exit(UINT code)
{
    AcquireSRWLockExclusive(&scm_lock);
    scm_over = TRUE;
    if (scm_own && scm_said.dwCurrentState == SERVICE_STOP_PENDING)
    {
        scm_said.dwCurrentState = SERVICE_STOPPED;
        scm_said.dwControlsAccepted = scm_said.dwWaitHint = scm_said.dwCheckPoint = 0;
        real_set_status(scm_own, &scm_said);
    }
    ReleaseSRWLockExclusive(&scm_lock);
    ((void(WINAPI *)(UINT))GetProcAddress(GetModuleHandleA("ntdll.dll"), "RtlExitUserProcess"))(code);
}

static void scm_install(void)
{
    real_query_config = patch_export("QueryServiceConfigW", my_query_config);
    real_query_config2 = patch_export("QueryServiceConfig2W", my_query_config2);
    real_change_config2 = patch_export("ChangeServiceConfig2W", my_change_config2);
    real_open_service = patch_export("OpenServiceW", my_open_service);
    real_create_service = patch_export("CreateServiceW", my_create_service);
    patch_export("EnumDependentServicesW", my_enum_dependents);
    real_set_status = patch_export("SetServiceStatus", my_set_status);
    if (real_set_status) patch_jump((void *)GetProcAddress(GetModuleHandleA("kernel32.dll"), "ExitProcess"), my_exit);
}

#endif
