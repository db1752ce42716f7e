/* ntsystem.h: session 0, elevation, and the first instance of a named pipe.
 *
 * Stands in for: the service manager's session, which Wine does not tell from the user's, so that a Go program believes that it is not
 * a service; the elevated token that services and the sessions of administrators over SSH have; and NPFS, where no client is connected to an instance whose server handle can neither be read nor written. Wine connects one
 * to the instance that go-winio keeps only to hold the name, and the first client of every pipe waits for ever.
 * Invents: nothing. */
#ifndef NTSYSTEM_H
#define NTSYSTEM_H
#include <winternl.h>
#include <wchar.h>

typedef NTSTATUS(WINAPI *query_system_t)(ULONG, void *, ULONG, ULONG *);
typedef NTSTATUS(WINAPI *create_pipe_t)(HANDLE *, ULONG, OBJECT_ATTRIBUTES *, IO_STATUS_BLOCK *, ULONG, ULONG, ULONG, ULONG, ULONG,
                                        ULONG, ULONG, ULONG, ULONG, LARGE_INTEGER *);
static query_system_t real_query_system;
static create_pipe_t real_create_pipe;

/* Offsets in SYSTEM_PROCESS_INFORMATION. */
#define NAME_LENGTH 0x38
#define NAME_BUFFER 0x40
#define SESSION 0x64

static NTSTATUS WINAPI my_query_system(ULONG class, void *data, ULONG size, ULONG *needed)
{
    static const WCHAR manager[] = L"services.exe";
    NTSTATUS status = real_query_system(class, data, size, needed);
    char *p = data;

    if (status || class != 5 /* SystemProcessInformation */ || !p) return status;
    for (;;)
    {
        const WCHAR *name = *(WCHAR **)(p + NAME_BUFFER);
        if (name && *(USHORT *)(p + NAME_LENGTH) == sizeof manager - sizeof *manager && !_wcsnicmp(name, manager, 12))
            *(ULONG *)(p + SESSION) = 0;
        if (!*(ULONG *)p) return status;
        p += *(ULONG *)p;
    }
}

typedef NTSTATUS(WINAPI *query_token_t)(HANDLE, ULONG, void *, ULONG, ULONG *);
static query_token_t real_query_token;

static NTSTATUS WINAPI my_query_token(HANDLE token, ULONG class, void *data, ULONG size, ULONG *needed)
{
    NTSTATUS status = real_query_token(token, class, data, size, needed);

    if (!status && class == TokenElevation) *(DWORD *)data = 1;
    if (!status && class == TokenElevationType) *(DWORD *)data = TokenElevationTypeDefault;
    return status;
}

static NTSTATUS WINAPI my_create_pipe(HANDLE *pipe, ULONG access, OBJECT_ATTRIBUTES *object, IO_STATUS_BLOCK *io, ULONG sharing,
                                      ULONG disposition, ULONG options, ULONG type, ULONG read_mode, ULONG completion, ULONG instances,
                                      ULONG in_quota, ULONG out_quota, LARGE_INTEGER *timeout)
{
    NTSTATUS status = real_create_pipe(pipe, access, object, io, sharing, disposition, options, type, read_mode, completion, instances,
                                       in_quota, out_quota, timeout);
    OBJECT_ATTRIBUTES client = *object;
    IO_STATUS_BLOCK ignored;
    HANDLE occupied; /* kept open for as long as the process lives */

    if (status || (access & (GENERIC_READ | GENERIC_WRITE | GENERIC_ALL | FILE_READ_DATA | FILE_WRITE_DATA))) return status;
    client.SecurityDescriptor = NULL;
    NtOpenFile(&occupied, GENERIC_READ | GENERIC_WRITE | SYNCHRONIZE, &client, &ignored, FILE_SHARE_READ | FILE_SHARE_WRITE, 0);
    return status;
}

#endif
