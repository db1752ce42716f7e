/* ntpath.h: opening a file by its NT name without passing through the functions that ntfile.h and ntacl.h replace.
 * Stands in for and invents: nothing. */
#ifndef NTPATH_H
#define NTPATH_H
#include <winternl.h>

typedef NTSTATUS(WINAPI *create_file_t)(HANDLE *, ULONG, OBJECT_ATTRIBUTES *, IO_STATUS_BLOCK *, LARGE_INTEGER *, ULONG, ULONG, ULONG,
                                        ULONG, void *, ULONG);
typedef NTSTATUS(WINAPI *set_file_t)(HANDLE, IO_STATUS_BLOCK *, void *, ULONG, ULONG);
typedef NTSTATUS(WINAPI *query_file_t)(HANDLE, IO_STATUS_BLOCK *, void *, ULONG, ULONG);

static create_file_t real_create_file;
static set_file_t real_set_file;
static query_file_t real_query_file;

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

static NTSTATUS open_named(HANDLE folder, const WCHAR *name, ULONG bytes, ULONG access, ULONG disposition, HANDLE *out)
{
    UNICODE_STRING text = {.Length = (USHORT)bytes, .MaximumLength = (USHORT)bytes, .Buffer = (WCHAR *)name};
    OBJECT_ATTRIBUTES object = {.Length = sizeof object, .RootDirectory = folder, .ObjectName = &text, .Attributes = OBJ_CASE_INSENSITIVE};
    IO_STATUS_BLOCK io;

    return real_create_file(out, access | SYNCHRONIZE, &object, &io, NULL, FILE_ATTRIBUTE_NORMAL, SHARE_ALL, disposition,
                            FILE_SYNCHRONOUS_IO_NONALERT | FILE_NON_DIRECTORY_FILE, NULL, 0);
}

static NTSTATUS mark_deleted(HANDLE file, BYTE mark)
{
    IO_STATUS_BLOCK io;
    return real_set_file(file, &io, &mark, sizeof mark, 13 /* FileDispositionInformation */);
}

#endif
